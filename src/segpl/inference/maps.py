"""All maps of one scan on one grid, and which of them is which."""

from dataclasses import dataclass, replace

from segpl.inference.levels import LevelMaps


@dataclass(frozen=True, eq=False)
class ScanMaps:
    """Maps of K regions as 16-bit levels, in one array: they are resampled together."""

    levels: LevelMaps
    """K probabilities for each temperature, then K maps for the masks, then K variances."""
    temperatures: int = 1
    has_separate_masks: bool = False
    """Whether there are maps for the masks, which are then not cut where p exceeds 1/2."""
    has_variance: bool = False

    def probability(self, temperature: int = 0) -> LevelMaps:
        """The probability of each region at the temperature of this index."""
        return self._set(temperature)

    @property
    def mask_levels(self) -> LevelMaps:
        """Maps that exceed 1/2 inside the masks: the probability, unless masks are separate."""
        return self._set(self.temperatures) if self.has_separate_masks else self._set(0)

    @property
    def variance_levels(self) -> LevelMaps | None:
        """Four times the variance between the samples; none without samples."""
        return self.levels[-self._regions :] if self.has_variance else None

    def without_variance(self) -> "ScanMaps":
        """The same maps but the variances."""
        if not self.has_variance:
            return self
        return replace(self, levels=self.levels[: -self._regions], has_variance=False)

    @property
    def _regions(self) -> int:
        sets = self.temperatures + self.has_separate_masks + self.has_variance
        return len(self.levels) // sets

    def _set(self, index: int) -> LevelMaps:
        start = index * self._regions
        return self.levels[start : start + self._regions]
