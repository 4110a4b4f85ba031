//! Conversions between integer types.

/// An integer type with its bounds.
pub trait Integer: Copy {
    /// The smallest value.
    const MIN: Self;
    /// The largest value.
    const MAX: Self;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Integer for $integer {
            const MIN: Self = Self::MIN;
            const MAX: Self = Self::MAX;
        }
    )*};
}

integers!(i32, i64, u16, u32, u64, usize);

/// `value` as a `T`, or the bound of `T` that it exceeds.
pub fn saturating<T: Integer>(value: impl Copy + PartialOrd + Default + TryInto<T>) -> T {
    let bound = || if value < Default::default() { T::MIN } else { T::MAX };
    value.try_into().unwrap_or_else(|_| bound())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_out_of_range_becomes_the_bound() {
        assert_eq!(saturating::<u64>(7_usize), 7);
        assert_eq!(saturating::<i32>(-7_i64), -7);
        assert_eq!(saturating::<u32>(u128::MAX), u32::MAX);
        assert_eq!(saturating::<u32>(-1_i64), 0);
        assert_eq!(saturating::<i32>(i64::MIN), i32::MIN);
    }
}
