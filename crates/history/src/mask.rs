//! Masks secrets in records before they leave the node, if the host wants them masked before they are stored. A journal has
//! the state of shells as it is, which a daemon needs to continue them; history does not need it.

use shellkeep_record::Masker;
use shellkeep_session::{Event, Json, Record};

/// Masks what is found in a record.
pub(crate) fn mask(record: &mut Record, masker: &Masker) -> Result<(), serde_json::Error> {
    let mut event = record.event.to_tree()?;
    if !masker.mask_value(&mut event) {
        return Ok(());
    }
    record.event = match Event::from_tree(&event) {
        Ok(event) => event,
        // Something that is no text was masked. Its type and all else is kept as it is shown.
        Err(_) => {
            let (event_type, author) = (record.event.stored_type().to_owned(), record.event.author());
            Event::Noted { event_type, data: event, author }
        }
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shellkeep_redact::{Config, Redactor};

    fn masked(event: serde_json::Value) -> String {
        let redactor = Redactor::new(&Config::default()).expect("rules");
        let redactor = redactor.with_secrets(["registered-horse-battery"]).expect("a secret");
        let record =
            json!({"session_id": "registered-horse-battery", "seq": 3, "at": "2026-11-17T01:02:03Z", "event": event});
        let mut record: Record = serde_json::from_value(record).expect("a record");
        mask(&mut record, &Masker::new(redactor)).expect("JSON");
        assert_eq!(record.session_id.as_str(), "registered-horse-battery", "a name is not masked");
        serde_json::to_string(&record.event).expect("JSON")
    }

    #[test]
    fn a_record_has_no_secret_and_is_still_one() {
        let shown = masked(json!({"message_added": {"message": {"seq_id": 1, "role": "user",
            "content": "a registered-horse-battery b", "at": "2026-11-17T01:02:03Z"}}}));
        assert!(shown.contains("message_added") && shown.contains("a *** b"), "{shown}");
        let plain = masked(json!({"noted": {"event_type": "x_a", "data": {"text": "nothing"}}}));
        assert!(plain.contains("nothing"), "{plain}");
    }
}
