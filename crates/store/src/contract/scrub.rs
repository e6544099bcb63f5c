//! A scrub: afterwards no file under the data directory has the secret, and the session continues.

use super::*;
use shellkeep_record::scrub::redactor;
use std::fs;

tell!(memory = "memory://", filesystem = "file://store", sqlite = "sqlite://store.db"; (
    a_scrubbed_secret_is_in_no_file, a_scrub_of_nothing_changes_nothing, a_name_that_holds_the_secret_goes
));

const SECRET: &str = "kV9-scrub-value-7731";

/// The files that hold some bytes.
fn files_with(directory: &Path, needle: &[u8], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_with(&path, needle, found);
        } else if fs::read(&path).unwrap().windows(needle.len()).any(|window| window == needle) {
            found.push(path);
        }
    }
}

/// A search looks at commands in lower case.
fn with_secret(house: &House) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files_with(house.path(), SECRET.as_bytes(), &mut found);
    files_with(house.path(), SECRET.to_lowercase().as_bytes(), &mut found);
    found
}

/// A session that has the secret everywhere.
fn indiscreet() -> Teller {
    let mut teller = Teller::told("a");
    if let Event::SessionCreated { meta, shell } = &mut teller.records[0].event {
        meta.agent_config = serde_json::json!({"key": SECRET});
        shell.variables.insert("FIRST".into(), Variable::scalar("x", SECRET));
        teller.state.meta = (**meta).clone();
        teller.state.shell.variables.insert("FIRST".into(), Variable::scalar("x", SECRET));
    }
    let run_id = RunId::from_seq(teller.state.seq + 1);
    let (request_id, command) = (Some(format!("req-{SECRET}")), format!("curl -H {SECRET}").as_str().into());
    teller.say(Event::RunStarted {
        run_id: run_id.clone(),
        request_id,
        command,
        call: None,
        by: None,
        files_unkept: false,
    });
    let mut delta = set("LATER", SECRET);
    let source = format!("f () {{ echo {SECRET}; }}").as_str().into();
    delta.functions.insert("f".into(), Some(Function { attributes: String::new(), source }));
    delta.positional = Some(vec![SECRET.into(), vec![0xff].into()]);
    let stdout = [b"\xff ", SECRET.as_bytes()].concat();
    let stdout = Output { total: 22, kept: 22, inline: Some(stdout.into()), ..Output::default() };
    let result = RunResult { stdout, ..result() };
    teller.say(Event::RunFinished { run_id, result: Box::new(result), delta: Box::new(delta) });
    let data = serde_json::json!({"request_id": format!("req-{SECRET}")});
    teller.say(Event::Noted { event_type: "user_input".to_owned(), data, author: Author::caller(None) });
    teller.message("user", &format!("my key is {SECRET}"));
    teller.save("text/plain", format!("key={SECRET}").as_bytes());
    let notice = Notice { code: NoticeCode::ShellReplaced, message: format!("lost {SECRET}") };
    teller.say(Event::ShellStopped { reason: "died".to_owned(), notices: vec![notice] });
    let run_id = RunId::from_seq(teller.state.seq + 1);
    let command = format!("sleep 9 {SECRET}").as_str().into();
    teller.say(Event::RunStarted { run_id, request_id: None, command, call: None, by: None, files_unkept: false });
    teller
}

fn a_scrubbed_secret_is_in_no_file(house: House) {
    let store = house.open();
    let mut teller = indiscreet();
    // An earlier value of a variable lives on in unused pages of a database.
    let run = teller.start(None);
    let others: Vec<Teller> = (0..20).map(|number| Teller::told(&format!("other-{number}"))).collect();
    teller.append_to(&store);
    teller.finish(&run, set("LATER", "else"));
    teller.append_last(&store).unwrap();
    others.iter().for_each(|other| other.append_to(&store));
    wait(store.flush()).unwrap();
    let outputs = house.path().join("outputs/a");
    fs::create_dir_all(&outputs).unwrap();
    fs::write(outputs.join("r3.stdout"), format!("long {SECRET} output")).unwrap();
    fs::write(outputs.join("r4.stdout"), "harmless").unwrap();
    let redactor = redactor([SECRET]).unwrap();
    assert!(with_secret(&house).len() >= 2);
    let scrubbed = wait(store.scrub(&id("a"), &redactor, Some(outputs.clone()))).unwrap().masked;
    assert_eq!(with_secret(&house), Vec::<PathBuf>::new());
    assert!(scrubbed.files.contains(&"r3.stdout".to_owned()) && !scrubbed.files.contains(&"r4.stdout".to_owned()));
    assert_eq!(fs::read_to_string(outputs.join("r3.stdout")).unwrap(), "long *** output");
    // The runtime's part.
    teller.state = crate::masked_state(&teller.state, &redactor).unwrap();
    let (shell, agent_state) = (Box::new(teller.state.shell.clone()), teller.state.agent_state.clone());
    let (seqs, files) = (scrubbed.seqs, scrubbed.files);
    teller.say(Event::Scrubbed {
        by: None,
        seqs,
        files,
        sums: Default::default(),
        kv: Default::default(),
        checkpoints: Vec::new(),
        shell,
        agent_state,
    });
    teller.append_last(&store).unwrap();
    teller.assert_in(&store);
    teller.assert_recorded_in(&store);
    assert_eq!(wait(store.messages(&id("a"), 2, 9)).unwrap()[0].content, "my key is ***");
    let first = wait(store.first_shell(&id("a"))).unwrap().unwrap();
    assert_eq!(first.variables[&b"FIRST"[..]], Variable::scalar("x", "***"));
    // It continues, and so do the others, also after a restart.
    teller.message("user", "on");
    teller.append_last(&store).unwrap();
    drop(store);
    assert_eq!(with_secret(&house), Vec::<PathBuf>::new());
    if house.url != "memory://" {
        let store = house.open();
        teller.assert_in(&store);
        teller.assert_recorded_in(&store);
        others.iter().for_each(|other| other.assert_in(&store));
        others.iter().for_each(|other| other.assert_recorded_in(&store));
    }
}

fn a_scrub_of_nothing_changes_nothing(house: House) {
    let store = house.open();
    let teller = Teller::told("a");
    teller.append_to(&store);
    let redactor = redactor([SECRET]).unwrap();
    assert!(wait(store.scrub(&id("a"), &redactor, None)).unwrap().masked.is_empty());
    assert!(wait(store.scrub(&id("nobody"), &redactor, None)).unwrap().masked.is_empty());
    assert_eq!(crate::masked_state(&teller.state, &redactor).unwrap(), teller.state);
    teller.assert_in(&store);
    teller.assert_recorded_in(&store);
}

fn a_name_that_holds_the_secret_goes(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    let run = teller.start(None);
    teller.finish(&run, set(SECRET, "x"));
    teller.append_to(&store);
    let redactor = redactor([SECRET]).unwrap();
    let scrubbed = wait(store.scrub(&id("a"), &redactor, None)).unwrap().masked;
    assert_eq!(scrubbed.seqs, [3]);
    assert_eq!(with_secret(&house), Vec::<PathBuf>::new());
    teller.state = crate::masked_state(&teller.state, &redactor).unwrap();
    assert!(!teller.state.shell.variables.contains_key(SECRET.as_bytes()));
    teller.assert_in(&store);
}
