//! The verdict over GPU Direct RDMA: whether it earns what it is asked for, in bus bandwidth and in latency.
//!
//! Both sides are ratios of times without and with it, from an interleaved A/B (see [`crate::ab`]) whose first arm is without. A
//! side passes where the ratio surely reaches its mark; the rest says where it lies. The bootstrap that is sure of a gain at all
//! is sure of a mark, too: what is compared with is then the arm without, as fast as the mark asks for.
//!
//! Must not measure, and must not know how an arm is made to run with or without it.

use gdrtune_profiles::{profile::Speedup, vocab::Point};

use crate::{
    objective::Objective,
    stats::{ArmSamples, Arms, Design, compare, median},
};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Marks {
    /// Least relative gain of bus bandwidth: 0.3 is +30 %.
    pub gain: f64,
    /// Least part of the latency that goes away: 0.5 is -50 %. Below 1.
    pub latency_cut: f64,
    /// How sure it must be.
    pub p: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Marks {
    /// Bus bandwidth +30 % and latency -50 %, with P of 0.95 as every verdict.
    pub const fn standard(seed: u64) -> Self {
        Self { gain: 0.3, latency_cut: 0.5, p: 0.95, seed }
    }
}

/// Both arms at one point: samples by round.
#[derive(Debug, Clone, PartialEq)]
pub struct GdrPoint {
    /// The point.
    pub point: Point,
    /// Microseconds per operation without.
    pub off_us: ArmSamples,
    /// The same with it.
    pub on_us: ArmSamples,
    /// CPU microseconds per operation without.
    pub off_cpu_us: ArmSamples,
    /// The same with it.
    pub on_cpu_us: ArmSamples,
}

/// What was measured, for each side.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Large sizes, where bus bandwidth counts.
    pub bandwidth: Vec<GdrPoint>,
    /// Small sizes, where latency counts.
    pub latency: Vec<GdrPoint>,
}

/// Where a side stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It surely reaches its mark.
    Passes,
    /// Surely faster with it, and the mark is missed or not surely reached.
    Faster,
    /// Neither faster nor slower is sure.
    Open,
    /// Surely slower with it.
    Slower,
    /// An arm has no samples.
    NotMeasured,
}

/// One side's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Where it stands.
    pub standing: Standing,
    /// Time without over time with it, jointly over the side's sizes, with its 90 % interval; `None` where it was not measured.
    pub speedup: Option<Speedup>,
    /// The ratio that is asked for.
    pub mark: f64,
    /// How sure it is that the ratio reaches that.
    pub p_mark: f64,
}

/// One point's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The point.
    pub point: Point,
    /// Medians of time without and with it, in microseconds.
    pub off_us: Option<f64>,
    /// With it.
    pub on_us: Option<f64>,
    /// Medians of CPU time per operation, in microseconds; `None` where nobody tells.
    pub off_cpu_us: Option<f64>,
    /// With it.
    pub on_cpu_us: Option<f64>,
    /// Time without over time with it.
    pub speedup: Option<Speedup>,
}

/// The whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Both sides reach their marks.
    Passes,
    /// Both are faster, and not both reach their marks.
    Between,
    /// It is not sure that both are faster, and none is slower.
    Open,
    /// A side is slower with it.
    Slower,
    /// A side was not measured.
    NotMeasured,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The whole.
    pub decision: Decision,
    /// Bus bandwidth.
    pub bandwidth: Side,
    /// Latency.
    pub latency: Side,
    /// CPU time without over CPU time with it, jointly over all points; it decides nothing.
    pub cpu: Option<Speedup>,
    /// Every point, large sizes first.
    pub rows: Vec<Row>,
}

impl Side {
    /// Relative change of bus bandwidth, as low, median and high: 0.3 is +30 %.
    pub fn gain(&self) -> Option<[f64; 3]> {
        self.speedup.map(|speedup| [speedup.low, speedup.median, speedup.high].map(|ratio| ratio - 1.0))
    }

    /// Relative change of latency, as lowest (best), median and highest: -0.5 is half of it.
    pub fn latency_change(&self) -> Option<[f64; 3]> {
        self.speedup.map(|speedup| [speedup.high, speedup.median, speedup.low].map(|ratio| 1.0 / ratio - 1.0))
    }
}

/// Judges both sides.
pub fn judge(measured: &Measured, marks: &Marks) -> Verdict {
    let bandwidth = side(&measured.bandwidth, 1.0 + marks.gain, marks);
    let latency = side(&measured.latency, 1.0 / (1.0 - marks.latency_cut), marks);
    let all = || measured.bandwidth.iter().chain(&measured.latency);
    let standings = [bandwidth.standing, latency.standing];
    let decision = if standings.contains(&Standing::NotMeasured) {
        Decision::NotMeasured
    } else if standings.contains(&Standing::Slower) {
        Decision::Slower
    } else if standings.contains(&Standing::Open) {
        Decision::Open
    } else if standings == [Standing::Passes; 2] {
        Decision::Passes
    } else {
        Decision::Between
    };
    let rows = all().map(|point| row(point, marks)).collect();
    Verdict { decision, bandwidth, latency, cpu: cpu(all(), marks), rows }
}

fn side(points: &[GdrPoint], mark: f64, marks: &Marks) -> Side {
    let Some(speedup) = compared(points.iter().map(|point| (&point.off_us, &point.on_us)), marks) else {
        return Side { standing: Standing::NotMeasured, speedup: None, mark, p_mark: 0.0 };
    };
    // As if the arm without had been as fast as the mark asks for.
    let faster: Vec<ArmSamples> = points.iter().map(|point| scaled(&point.off_us, 1.0 / mark)).collect();
    let at_mark = compared(faster.iter().zip(points.iter().map(|point| &point.on_us)), marks);
    let p_mark = at_mark.map_or(0.0, |speedup| speedup.p_faster);
    let standing = if speedup.p_faster <= 1.0 - marks.p {
        Standing::Slower
    } else if marks.p <= p_mark {
        Standing::Passes
    } else if marks.p <= speedup.p_faster {
        Standing::Faster
    } else {
        Standing::Open
    };
    Side { standing, speedup: Some(speedup), mark, p_mark }
}

fn row(point: &GdrPoint, marks: &Marks) -> Row {
    let middle = |samples: &ArmSamples| median(&samples.values().flatten().copied().collect::<Vec<_>>());
    let told = |samples: &ArmSamples| middle(samples).filter(|&us| 0.0 < us);
    Row {
        point: point.point,
        off_us: middle(&point.off_us),
        on_us: middle(&point.on_us),
        off_cpu_us: told(&point.off_cpu_us),
        on_cpu_us: told(&point.on_cpu_us),
        speedup: compared([(&point.off_us, &point.on_us)], marks),
    }
}

/// CPU time, of the points where both arms tell it.
fn cpu<'p>(points: impl Iterator<Item = &'p GdrPoint>, marks: &Marks) -> Option<Speedup> {
    let is_told = |samples: &ArmSamples| samples.values().flatten().all(|&us| 0.0 < us);
    let told = points.filter(|point| is_told(&point.off_cpu_us) && is_told(&point.on_cpu_us));
    compared(told.map(|point| (&point.off_cpu_us, &point.on_cpu_us)), marks)
}

/// The first over the second, jointly; every point counts alike.
fn compared<'s>(points: impl IntoIterator<Item = (&'s ArmSamples, &'s ArmSamples)>, marks: &Marks) -> Option<Speedup> {
    let arms: Vec<Arms<'_>> =
        points.into_iter().map(|(default, candidate)| Arms { weight: 1.0, default, candidate }).collect();
    compare(&arms, Objective::GeometricMean, Design::Rounds, marks.seed)
}

fn scaled(samples: &ArmSamples, factor: f64) -> ArmSamples {
    samples.iter().map(|(round, times)| (*round, times.iter().map(|us| us * factor).collect())).collect()
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Collective;

    use super::*;

    /// Nine rounds around `off_us` and `on_us`, that scatter by `noise`, each round in its own way.
    fn point(bytes: u64, [off_us, on_us]: [f64; 2], noise: f64) -> GdrPoint {
        let rounds = |us: f64, phase: u32| -> ArmSamples {
            let luck = |round: u32| 1.0 + noise * (f64::from((round * 7 + phase * 5) % 9) / 4.0 - 1.0);
            (0..9).map(|round| (round, vec![us * luck(round), us * luck(round) * 1.001])).collect()
        };
        GdrPoint {
            point: Point { collective: Collective::AllReduce, bytes },
            off_us: rounds(off_us, 0),
            on_us: rounds(on_us, 1),
            off_cpu_us: rounds(off_us / 2.0, 2),
            on_cpu_us: rounds(on_us / 4.0, 3),
        }
    }

    fn verdict(bandwidth: [f64; 2], latency: [f64; 2], noise: f64) -> Verdict {
        let measured = Measured {
            bandwidth: vec![point(16 << 20, bandwidth, noise), point(64 << 20, bandwidth.map(|us| us * 4.0), noise)],
            latency: vec![point(1024, latency, noise)],
        };
        judge(&measured, &Marks::standard(1))
    }

    #[test]
    fn each_side_stands_where_its_interval_lies() {
        use Decision::{Between, Open, Passes, Slower};
        use Standing as S;
        for (bandwidth, latency, noise, decision, sides) in [
            // +50 % and -60 %.
            ([1500.0, 1000.0], [100.0, 40.0], 0.02, Passes, [S::Passes, S::Passes]),
            // +20 % and -60 %; +50 % and -30 %; +20 % and -30 %.
            ([1200.0, 1000.0], [100.0, 40.0], 0.02, Between, [S::Faster, S::Passes]),
            ([1500.0, 1000.0], [100.0, 70.0], 0.02, Between, [S::Passes, S::Faster]),
            ([1200.0, 1000.0], [100.0, 70.0], 0.02, Between, [S::Faster, S::Faster]),
            // At the mark, which is not surely reached.
            ([1300.0, 1000.0], [100.0, 40.0], 0.05, Between, [S::Faster, S::Passes]),
            // No difference, and one that noise hides.
            ([1000.0, 1000.0], [100.0, 40.0], 0.02, Open, [S::Open, S::Passes]),
            ([1020.0, 1000.0], [100.0, 99.0], 0.3, Open, [S::Open, S::Open]),
            // Slower, however good the other side is.
            ([800.0, 1000.0], [100.0, 40.0], 0.02, Slower, [S::Slower, S::Passes]),
            ([1500.0, 1000.0], [100.0, 120.0], 0.02, Slower, [S::Passes, S::Slower]),
            ([800.0, 1000.0], [100.0, 120.0], 0.02, Slower, [S::Slower, S::Slower]),
        ] {
            let verdict = verdict(bandwidth, latency, noise);
            let stands = [verdict.bandwidth.standing, verdict.latency.standing];
            assert_eq!((verdict.decision, stands), (decision, sides), "{bandwidth:?} {latency:?} {noise}: {verdict:?}");
        }
    }

    #[test]
    fn figures_are_said_as_they_are_asked_for_with_their_intervals() {
        let verdict = verdict([1500.0, 1000.0], [100.0, 40.0], 0.02);
        let [low, gain, high] = verdict.bandwidth.gain().unwrap();
        assert!(low <= gain && gain <= high && (gain - 0.5).abs() < 0.03, "{low} {gain} {high}");
        let [best, change, worst] = verdict.latency.latency_change().unwrap();
        assert!(best <= change && change <= worst && (change + 0.6).abs() < 0.02, "{best} {change} {worst}");
        assert!((verdict.bandwidth.mark - 1.3).abs() < 1e-12 && (verdict.latency.mark - 2.0).abs() < 1e-12);
        // A quarter of 1000 us and of 40 us against half of 1500 us and of 100 us, jointly over three points.
        let cpu = verdict.cpu.unwrap();
        assert!((cpu.median - (3.0f64 * 3.0 * 5.0).cbrt()).abs() < 0.2, "{cpu:?}");
        assert_eq!(verdict.rows.len(), 3);
        assert!(verdict.rows[2].on_us.is_some_and(|us| (us - 40.0).abs() < 1.0));
    }

    #[test]
    fn few_rounds_and_arms_without_samples_never_pass() {
        let mut measured = Measured {
            bandwidth: vec![point(1 << 20, [3000.0, 1000.0], 0.0)],
            latency: vec![point(8, [100.0, 20.0], 0.0)],
        };
        for samples in [&mut measured.bandwidth[0].on_us, &mut measured.latency[0].on_us] {
            samples.retain(|round, _| *round < 3);
        }
        let few = judge(&measured, &Marks::standard(1));
        assert_eq!(few.decision, Decision::Open, "three rounds are not sure of anything: {few:?}");
        measured.latency[0].on_us.clear();
        assert_eq!(judge(&measured, &Marks::standard(1)).decision, Decision::NotMeasured);
        measured.latency.clear();
        assert_eq!(judge(&measured, &Marks::standard(1)).latency.standing, Standing::NotMeasured);
        // Nobody tells CPU time.
        measured.bandwidth[0].on_cpu_us.values_mut().flatten().for_each(|us| *us = 0.0);
        let silent = judge(&measured, &Marks::standard(1));
        assert_eq!((silent.cpu, silent.rows[0].on_cpu_us), (None, None));
    }

    #[test]
    fn marks_are_the_users() {
        let measured = Measured {
            bandwidth: vec![point(1 << 20, [1200.0, 1000.0], 0.02)],
            latency: vec![point(8, [100.0, 70.0], 0.02)],
        };
        for (gain, latency_cut, decision) in
            [(0.1, 0.2, Decision::Passes), (0.3, 0.2, Decision::Between), (0.0, 0.0, Decision::Passes)]
        {
            let marks = Marks { gain, latency_cut, ..Marks::standard(1) };
            assert_eq!(judge(&measured, &marks).decision, decision, "{gain} {latency_cut}");
        }
    }
}
