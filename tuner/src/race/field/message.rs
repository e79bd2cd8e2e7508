//! What belief propagation passes along links: a Gaussian by its precision, which adds up.

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Message {
    pub(super) precision: f64,
    /// Precision times mean.
    pub(super) shift: f64,
}

impl Message {
    /// 0 of one that says nothing.
    pub(super) fn mean(self) -> f64 {
        if self.precision > 0.0 { self.shift / self.precision } else { 0.0 }
    }

    /// What is left of it when `other` is taken out again.
    pub(super) fn without(self, other: Self) -> Self {
        Self { precision: self.precision - other.precision, shift: self.shift - other.shift }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.precision += other.precision;
        self.shift += other.shift;
    }

    /// What this says about the other end of a link whose ends differ by `difference`, with this variance.
    pub(super) fn through(self, difference: f64, variance: f64) -> Self {
        if self.precision <= 0.0 {
            return Self::default();
        }
        let precision = 1.0 / (1.0 / self.precision + variance);
        Self { precision, shift: precision * (self.shift / self.precision + difference) }
    }
}
