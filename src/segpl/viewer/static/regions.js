// One row for each region: its colour, threshold, volume and expected Dice.

import { css, regionColour } from "./colours.js";
import { countNumbers, expectedDice } from "./mask.js";

export class RegionRows {
  /** The functions are called when the reader moves a threshold, and shows or hides a region. */
  constructor(box, regions, onThreshold, onVisible) {
    this.regions = regions;
    this.rows = regions.map((region, index) => row(region.name, index));
    this.rows.forEach((parts) => {
      box.append(parts.row);
      parts.slider.addEventListener("input", onThreshold);
      parts.visible.addEventListener("change", onVisible);
    });
  }

  /** Whether each region is shown. */
  get visible() {
    return this.rows.map((parts) => parts.visible.checked);
  }

  get thresholds() {
    return this.rows.map((parts) => Number(parts.slider.value));
  }

  /** Start at the thresholds of the model. */
  setThresholds(values) {
    this.rows.forEach((parts, index) => {
      parts.slider.value = values[index];
    });
  }

  setEnabled(enabled) {
    for (const parts of this.rows) parts.slider.disabled = !enabled;
  }

  /** Without a model there is nothing to move a threshold of. */
  hideThresholds(hidden) {
    for (const parts of this.rows) {
      parts.slider.hidden = hidden;
      parts.threshold.parentElement.hidden = hidden;
      parts.dice.parentElement.hidden = hidden;
    }
  }

  /** Show the numbers of a mask. Curves are null where the mask is not the model's. */
  showNumbers(mask, curves, mlPerVoxel) {
    const counts = mask ? countNumbers(mask) : null;
    this.rows.forEach((parts, index) => {
      const threshold = Number(parts.slider.value);
      parts.threshold.textContent = curves ? (threshold / 100).toFixed(2) : "–";
      parts.volume.textContent = counts ? `${millilitres(counts, this.regions[index], mlPerVoxel)} ml` : "–";
      parts.volume.dataset.voxels = counts ? voxels(counts, this.regions[index]) : "";
      const dice = curves ? expectedDice(curves[index], threshold) : NaN;
      parts.dice.textContent = Number.isNaN(dice) ? "–" : dice.toFixed(2);
    });
  }
}

/** The voxels of a region, which include those of the regions inside it. */
function voxels(counts, region) {
  return region.holds.reduce((sum, number) => sum + counts[number], 0);
}

/** Three digits, and whole millilitres from 100 on. */
function millilitres(counts, region, mlPerVoxel) {
  const volume = voxels(counts, region) * mlPerVoxel;
  return volume >= 100 ? volume.toFixed(0) : String(Number(volume.toPrecision(3)));
}

function row(name, index) {
  const box = document.createElement("div");
  box.className = "region";
  const swatch = document.createElement("span");
  swatch.className = "swatch";
  swatch.style.backgroundColor = css(regionColour(index));
  const title = document.createElement("label");
  title.className = "region-name";
  const visible = document.createElement("input");
  visible.type = "checkbox";
  visible.checked = true;
  visible.id = `visible-${index}`;
  title.append(name, visible);
  const slider = document.createElement("input");
  slider.type = "range";
  slider.min = 1;
  slider.max = 99;
  slider.value = 50;
  slider.id = `threshold-${index}`;
  slider.setAttribute("aria-label", `Threshold of ${name} in per cent`);
  const numbers = document.createElement("dl");
  const threshold = number(numbers, "threshold");
  const volume = number(numbers, "volume");
  const dice = number(numbers, "expected Dice");
  volume.previousSibling.className = "only-heard";
  volume.id = `volume-${index}`;
  dice.id = `dice-${index}`;
  box.append(swatch, title, slider, numbers);
  return { row: box, visible, slider, threshold, volume, dice };
}

function number(list, name) {
  const item = document.createElement("div");
  const title = document.createElement("dt");
  title.textContent = name;
  const value = document.createElement("dd");
  value.textContent = "–";
  item.append(title, value);
  list.append(item);
  return value;
}
