//! Where networks are computed: on the processor, or by LibTorch on one GPU (feature `tch`). Chosen once, for the whole process.

use crate::error::LearnError;
use burn::tensor::Device;
use std::str::FromStr;
use std::sync::OnceLock;

static CHOSEN: OnceLock<Compute> = OnceLock::new();

/// Where networks are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compute {
    /// On the processor, by our own passes where there are some, else by burn's.
    #[default]
    Processor,
    /// On the processor, by LibTorch.
    #[cfg(feature = "tch")]
    Torch,
    /// On a GPU, by LibTorch.
    #[cfg(feature = "tch")]
    Cuda(usize),
}

impl FromStr for Compute {
    type Err = LearnError;

    fn from_str(name: &str) -> Result<Self, LearnError> {
        match (name, name.strip_prefix("cuda:").map(str::parse::<usize>)) {
            ("cpu", _) => Ok(Self::Processor),
            #[cfg(feature = "tch")]
            ("torch", _) => Ok(Self::Torch),
            #[cfg(feature = "tch")]
            (_, Some(Ok(index))) => Ok(Self::Cuda(index)),
            #[cfg(not(feature = "tch"))]
            ("torch", _) | (_, Some(Ok(_))) => Err(LearnError::Invalid(format!(
                "device {name:?} needs LibTorch, which this build does not have; build with --features tch"
            ))),
            _ => Err(LearnError::unknown("device", name, ["cpu", "torch", "cuda:0"])),
        }
    }
}

impl Compute {
    /// Computes networks there from now on; refused if they are computed elsewhere already.
    pub fn choose(self) -> Result<(), LearnError> {
        #[cfg(feature = "tch")]
        self.probe()?;
        if *CHOSEN.get_or_init(|| self) == self {
            return Ok(());
        }
        Err(LearnError::Invalid("networks are computed on another device already".into()))
    }

    /// Whether there is such a device: LibTorch says so by a panic, where it is first used.
    #[cfg(feature = "tch")]
    fn probe(self) -> Result<(), LearnError> {
        let Self::Cuda(index) = self else { return Ok(()) };
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let tried = std::panic::catch_unwind(|| burn::tensor::Tensor::<1>::from_data([0.0_f32], &self.device()));
        std::panic::set_hook(hook);
        let absent = || format!("device cuda:{index}: LibTorch finds no such GPU; check its driver, or take cpu");
        tried.map(drop).map_err(|_| LearnError::Invalid(absent()))
    }

    /// Where networks are computed.
    pub(super) fn chosen() -> Self {
        *CHOSEN.get_or_init(Self::default)
    }

    /// Whether our own passes may be taken.
    pub(super) fn is_processor(self) -> bool {
        self == Self::Processor
    }

    /// As burn has it.
    // burn's own GPU backends cannot be built without a network; LibTorch can.
    #[cfg_attr(feature = "tch", expect(deprecated, reason = "it is the one GPU backend that builds offline"))]
    pub(super) fn device(self) -> Device {
        match self {
            Self::Processor => Device::flex(),
            #[cfg(feature = "tch")]
            Self::Torch => Device::libtorch(),
            #[cfg(feature = "tch")]
            Self::Cuda(index) => Device::libtorch_cuda(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        assert_eq!("cpu".parse::<Compute>().unwrap(), Compute::Processor);
        let error = "cuda".parse::<Compute>().unwrap_err().to_string();
        assert!(error.contains("cpu, torch, cuda:0"), "{error}");
        match "cuda:1".parse::<Compute>() {
            #[cfg(feature = "tch")]
            Ok(compute) => assert_eq!(compute, Compute::Cuda(1)),
            #[cfg(not(feature = "tch"))]
            Err(error) => assert!(error.to_string().contains("--features tch"), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}
