// Masks as arrays: one byte per voxel, the number of the region counted from 1, 0 elsewhere.
// NiiVue draws in voxels sorted right, anterior, superior (RAS); files have their own order.

/** Paint regions where their probability in per cent exceeds their threshold; later ones on top. */
export function paintMask(maps, thresholds, mask) {
  mask.fill(0);
  maps.forEach((percent, index) => {
    const threshold = thresholds[index];
    const number = index + 1;
    for (let voxel = 0; voxel < mask.length; voxel++) {
      if (percent[voxel] > threshold) mask[voxel] = number;
    }
  });
}

/** How many voxels have each number, from 0 to 255. */
export function countNumbers(mask) {
  const counts = new Array(256).fill(0);
  for (let voxel = 0; voxel < mask.length; voxel++) counts[mask[voxel]]++;
  return counts;
}

/** The Dice to expect from the probabilities: 2 sum(p m) / (sum(p) + sum(m)); NaN if m is empty. */
export function expectedDice(curve, threshold) {
  let inside = 0;
  let everywhere = 0;
  let voxels = 0;
  curve.probability.forEach((probability, percent) => {
    everywhere += probability;
    if (percent > threshold) {
      inside += probability;
      voxels += curve.voxels[percent];
    }
  });
  return voxels === 0 ? NaN : (2 * inside) / (everywhere + voxels);
}

/** The voxels that differ from one of their four neighbours in the axial plane; 0 elsewhere. */
export function outlineOf(mask, width, height) {
  const outline = new Uint8Array(mask.length);
  for (let voxel = 0; voxel < mask.length; voxel++) {
    const number = mask[voxel];
    if (number === 0) continue;
    const x = voxel % width;
    const y = Math.floor(voxel / width) % height;
    const isInside =
      x > 0 && mask[voxel - 1] === number &&
      x < width - 1 && mask[voxel + 1] === number &&
      y > 0 && mask[voxel - width] === number &&
      y < height - 1 && mask[voxel + width] === number;
    if (!isInside) outline[voxel] = number;
  }
  return outline;
}

/**
 * The voxels of a RAS array in the order of the file. `perm` is NiiVue's: which axis of the file
 * each RAS axis is, counted from 1, negative if reversed. `dims` are the sizes in the file.
 */
export function toFileOrder(ras, perm, dims) {
  const steps = [1, dims[0], dims[0] * dims[1]];
  const step = [0, 0, 0];
  const size = [0, 0, 0];
  let start = 0;
  perm.forEach((signed, axis) => {
    const fileAxis = Math.abs(signed) - 1;
    size[axis] = dims[fileAxis];
    step[axis] = steps[fileAxis];
    if (signed < 0) {
      start += step[axis] * (size[axis] - 1);
      step[axis] = -step[axis];
    }
  });
  const file = new Uint8Array(ras.length);
  let voxel = 0;
  for (let z = 0; z < size[2]; z++) {
    for (let y = 0; y < size[1]; y++) {
      let target = start + z * step[2] + y * step[1];
      for (let x = 0; x < size[0]; x++) {
        file[target] = ras[voxel++];
        target += step[0];
      }
    }
  }
  return file;
}
