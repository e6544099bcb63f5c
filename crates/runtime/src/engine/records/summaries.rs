//! A recording in short: its events in one line each, and all of it as a row of bars.

use crate::ops::{Bucket, MAX_EVENT_PAGE, Origin, Overview, Summary, SummaryPage};
use shellkeep_record::{Filter, ReadError, Recording};

/// Up to this many events are all read for the bars. Of a longer recording, each bar reads its first few.
const READ_ALL: u64 = 20_000;
/// Events that a bar of a long recording reads.
const SAMPLE: usize = 40;

/// A page of events in one line each.
pub(in crate::engine) fn page(
    recording: &Recording,
    after: u64,
    limit: usize,
    failed: bool,
    filter: &Filter,
) -> Result<SummaryPage, ReadError> {
    let limit = limit.clamp(1, MAX_EVENT_PAGE);
    let (mut events, mut after) = (Vec::new(), after);
    loop {
        // Most events did not fail, so many are read for one.
        let page = recording.page(after, if failed { MAX_EVENT_PAGE } else { limit }, filter)?;
        for line in &page.lines {
            let summary = Summary::of(line);
            if failed && !summary.failed {
                continue;
            }
            events.push(summary);
            if events.len() == limit {
                let is_last = page.lines.last().is_some_and(|last| last.seq == line.seq);
                let next = if is_last { page.next } else { Some(line.seq) };
                return Ok(SummaryPage { events, next, origin: Origin::Node });
            }
        }
        match page.next {
            Some(next) if failed => after = next,
            next => return Ok(SummaryPage { events, next, origin: Origin::Node }),
        }
    }
}

/// All events as bars of equal numbers of events.
pub(in crate::engine) fn overview(recording: &Recording, buckets: u64) -> Result<Overview, ReadError> {
    let last = recording.last()?.map_or(0, |line| line.seq);
    let each = last.div_ceil(buckets.max(1)).max(1);
    let is_sampled = last > READ_ALL;
    let mut bars = Vec::new();
    let mut start = 0;
    while start < last {
        let events = each.min(last - start);
        bars.push(bar(recording, start, events, is_sampled)?);
        start += events;
    }
    Ok(Overview { buckets: bars, is_sampled })
}

fn bar(recording: &Recording, after: u64, events: u64, is_sampled: bool) -> Result<Bucket, ReadError> {
    let most = usize::try_from(events).unwrap_or(MAX_EVENT_PAGE).min(MAX_EVENT_PAGE);
    let limit = if is_sampled { SAMPLE.min(most) } else { most };
    let (mut bucket, mut read, mut at) = (Bucket { seq: after + 1, events, ..Bucket::default() }, 0_u32, after);
    loop {
        let page = recording.page(at, limit, &Filter::default())?;
        for line in page.lines.iter().take_while(|line| line.seq <= after + events) {
            let summary = Summary::of(line);
            bucket.failed += u64::from(summary.failed);
            bucket.seconds += summary.seconds.unwrap_or(0.0);
            bucket.from.get_or_insert(line.timestamp);
            read += 1;
        }
        match page.next {
            Some(next) if !is_sampled && next < after + events => at = next,
            _ => break,
        }
    }
    if is_sampled && read > 0 {
        bucket.seconds *= events as f64 / f64::from(read);
    }
    Ok(bucket)
}
