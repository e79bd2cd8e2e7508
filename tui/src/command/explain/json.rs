//! The same as one JSON document, with everything that was tried.

use gdrtune_profiles::{
    profile::{Profile, Stretch},
    vocab::Collective,
};
use gdrtune_session::{
    evidence::Judged,
    explain::{Answer, Neighbour, OwnChoice, PointStory, SettingAnswer, Times, Tried},
};
use serde_json::{Value, json};

use super::Explained;
use crate::ui::text::failure_name;

/// One call.
pub(super) fn call(answer: &Answer<'_>, profile: &Profile) -> Value {
    let neighbour = |neighbour: &Neighbour<'_>| {
        let crossing = neighbour
            .crossings
            .iter()
            .map(|crossing| json!({"bytes": crossing.bytes, "own_us": crossing.own_us, "other_us": crossing.other_us}));
        let mut shown = stretch(neighbour.stretch);
        shown["boundary"] = crossing.collect();
        shown
    };
    json!({
        "collective": answer.point.collective,
        "bytes": answer.point.bytes,
        "decision": stretch(answer.stretch),
        "hidden_rules": answer.hidden.iter().map(|place| place + 1).collect::<Vec<_>>(),
        "own_choice": answer.own.iter().map(|(bytes, own)| own_choice(*bytes, own)).collect::<Vec<_>>(),
        "environment": profile.environment(),
        "measured": answer.story.map(point),
        "search_pick": answer.pick,
        "smaller": answer.below.as_ref().map(neighbour),
        "larger": answer.above.as_ref().map(neighbour),
    })
}

/// One variable.
pub(super) fn setting(answer: &SettingAnswer<'_>) -> Value {
    let values = answer
        .values
        .iter()
        .map(|tried| json!({"value": tried.value, "environments": tried.environments, "best_score": tried.best_score}));
    json!({
        "name": answer.name,
        "setting": answer.setting,
        "evidence_of": answer.setting.and_then(|setting| setting.speedup).map(|_| if answer.is_alone { "environment" } else { "ablation" }),
        "help": answer.knob.map(|knob| knob.help),
        "searched": values.collect::<Vec<_>>(),
        "importance": answer.importance,
        "left_out": answer.left_out,
        "not_searched": answer.not_searched,
        "site": answer.site.iter().map(|(hosts, value)| json!({"hosts": hosts, "value": value})).collect::<Vec<_>>(),
    })
}

/// Decisions over all sizes.
pub(super) fn table(explained: &Explained<'_>, collectives: &[Collective]) -> Value {
    let of = |collective: &Collective| {
        let stretches = explained.profile().stretches(*collective, explained.shape);
        json!({"collective": collective, "decisions": stretches.into_iter().map(stretch).collect::<Vec<_>>()})
    };
    let left_out = explained.story.map(|story| &story.left_out);
    json!({
        "settings": explained.profile().env,
        "collectives": collectives.iter().map(of).collect::<Vec<_>>(),
        "left_out": left_out,
    })
}

fn stretch(stretch: Stretch<'_>) -> Value {
    json!({
        "bytes": stretch.bytes,
        "rule": stretch.rule.map(|(place, _)| place + 1),
        "choice": stretch.rule.map(|(_, rule)| rule.choice()),
        "default_us": stretch.rule.map(|(_, rule)| rule.default_us),
        "tuned_us": stretch.rule.map(|(_, rule)| rule.tuned_us),
        "speedup": stretch.rule.map(|(_, rule)| rule.speedup),
    })
}

fn own_choice(bytes: u64, own: &OwnChoice) -> Value {
    match own {
        OwnChoice::Ran(ran) => {
            let ran = ran.iter().map(|(choice, count)| json!({"choice": choice, "samples": count}));
            json!({"bytes": bytes, "known_by": "default arm", "ran": ran.collect::<Vec<_>>()})
        }
        OwnChoice::Predicted(choice, time_us) => {
            json!({"bytes": bytes, "known_by": "prediction", "choice": choice, "predicted_us": time_us})
        }
        OwnChoice::Unknown => json!({"bytes": bytes, "known_by": null}),
    }
}

fn times(times: Times) -> Value {
    json!({"median_us": times.median_us, "samples": times.samples, "processes": times.processes, "spread": times.spread})
}

fn point(story: &PointStory) -> Value {
    let judged = |judged: &Judged| {
        json!({
            "decision": judged.decision,
            "speedup": judged.speedup,
            "default_us": judged.default_us,
            "tuned_us": judged.tuned_us,
            "note": judged.note,
        })
    };
    let tried = |tried: &Tried| {
        let failures = tried
            .failures
            .iter()
            .map(|(kind, count, detail)| json!({"kind": failure_name(*kind), "count": count, "detail": detail}));
        json!({
            "environment": tried.environment,
            "choice": tried.choice,
            "times": tried.times.map(times),
            "failures": failures.collect::<Vec<_>>(),
            "dropped": tried.dropped,
        })
    };
    json!({
        "default": story.default.map(times),
        "predicted": story.predicted.iter().map(|(choice, us)| json!({"choice": choice, "us": us})).collect::<Vec<_>>(),
        "verdict": story.judged.as_ref().map(judged),
        "tried": story.tried.iter().map(tried).collect::<Vec<_>>(),
    })
}
