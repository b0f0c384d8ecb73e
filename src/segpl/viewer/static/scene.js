// The scan on the canvas: NiiVue with one image, at most one overlay, a label and a drawing.

import { DRAG_MODE, MULTIPLANAR_TYPE, Niivue, NVImage, SHOW_RENDER, SLICE_TYPE }
  from "./vendor/niivue.js";
import { drawingColours, outlineColours, PROBABILITY, UNCERTAINTY } from "./colours.js";
import { outlineOf, toFileOrder } from "./mask.js";

const LAYOUTS = {
  all: SLICE_TYPE.MULTIPLANAR,
  axial: SLICE_TYPE.AXIAL,
  coronal: SLICE_TYPE.CORONAL,
  sagittal: SLICE_TYPE.SAGITTAL,
  render: SLICE_TYPE.RENDER,
};
const SLICE_AXIS = { all: 2, axial: 2, coronal: 1, sagittal: 0, render: 2 };
const FAINT = 0.004; // NiiVue skips a drawing of opacity 0 altogether, with its contour

export class Scene {
  constructor(canvas) {
    this.canvas = canvas;
    this.layout = "all";
    this.isLarge = false;
    this.label = null;
    this.overlay = null;
    this.wantedLabel = null; // what the reader asked for last: loading takes a while
    this.wantedOverlay = null;
    this.onSlice = () => {};
    this.onStroke = () => {};
    this.onWindow = () => {};
  }

  async start(regions) {
    this.regions = regions;
    this.nv = new Niivue({
      backColor: [0.06, 0.07, 0.09, 1],
      crosshairColor: [0.6, 0.65, 0.7, 1],
      crosshairWidth: 0.25,
      isRadiologicalConvention: true,
      dragAndDropEnabled: false,
      dragMode: DRAG_MODE.contrast,
      isNearestInterpolation: false,
      multiplanarLayout: MULTIPLANAR_TYPE.GRID,
      multiplanarShowRender: SHOW_RENDER.ALWAYS,
      multiplanarPadPixels: 4,
      maxDrawUndoBitmaps: 24,
      clipPlaneHotKey: "",
      cycleClipPlaneHotKey: "",
      viewModeHotKey: "",
      logLevel: "error",
      loadingText: "",
      fontMinPx: 12,
    });
    await this.nv.attachToCanvas(this.canvas);
    this.nv.addColormap("segpl-probability", PROBABILITY);
    this.nv.addColormap("segpl-uncertainty", UNCERTAINTY);
    this.showRegions(new Array(regions).fill(true));
    this.nv.onLocationChange = () => this.onSlice();
    this.nv.onIntensityChange = () => this.onWindow();
    this.nv.onDrawingChanged = (action) => {
      if (action !== "close") this.onStroke(action);
    };
  }

  get image() {
    return this.nv.volumes[0] ?? null;
  }

  /** Show an image in place of all that was shown; its window is kept if `keepWindow`. */
  async showImage(bytes, keepWindow) {
    const before = this.image;
    const image = await NVImage.loadFromUrl({ url: bytes, name: fileName(bytes) });
    this.clear();
    if (before && keepWindow) {
      image.cal_min = before.cal_min;
      image.cal_max = before.cal_max;
    }
    this.nv.addVolume(image);
  }

  clear() {
    this.closeMask();
    this.wantedLabel = null;
    this.wantedOverlay = null;
    while (this.nv.volumes.length > 0) this.nv.removeVolume(this.nv.volumes.at(-1));
    this.label = null;
    this.overlay = null;
  }

  /** The voxels of a volume of the server, sorted as NiiVue draws: right, anterior, superior. */
  async sortedVoxels(bytes) {
    const volume = await NVImage.loadFromUrl({ url: bytes, name: fileName(bytes) });
    return volume.img2RAS();
  }

  /** Show the outline of a label, of which both the file and the sorted voxels are given. */
  async showLabel(bytes, voxels) {
    this.wantedLabel = bytes;
    this.remove(this.label);
    this.label = null;
    if (!bytes) return;
    const [, width, height] = this.image.dimsRAS;
    const { permRAS, hdr } = this.image;
    const outline = toFileOrder(outlineOf(voxels, width, height), permRAS, hdr.dims.slice(1, 4));
    const file = new Uint8Array(bytes.slice(0));
    file.set(outline, file.length - outline.length); // the voxels are the end of the file
    const label = await NVImage.loadFromUrl({ url: file.buffer, name: "label.nii" });
    if (this.wantedLabel !== bytes || this.label) return; // the reader was quicker
    label.setColormapLabel(outlineColours(this.regions));
    this.label = label;
    this.nv.addVolume(label);
  }

  /** Show probability or uncertainty, from a map in per cent; null hides it. */
  async showOverlay(bytes, kind) {
    this.wantedOverlay = kind;
    this.remove(this.overlay);
    this.overlay = null;
    if (!bytes) return;
    const name = fileName(bytes);
    const range = { cal_min: 0, cal_max: 100, colormap: `segpl-${kind}`, opacity: 0.85 };
    const overlay = await NVImage.loadFromUrl({ url: bytes, name, ...range });
    if (this.wantedOverlay !== kind || this.overlay) return;
    this.overlay = overlay;
    this.nv.addVolume(overlay);
  }

  remove(volume) {
    if (!volume) return;
    // Of a volume that is removed at once, NiiVue goes on showing the last picture in 3D.
    this.nv.setOpacity(this.nv.volumes.indexOf(volume), 0);
    this.nv.removeVolume(volume);
  }

  /** The mask on the screen: an array that may be changed, followed by `refreshMask`. */
  get mask() {
    if (!this.nv.drawBitmap) this.nv.createEmptyDrawing();
    return this.nv.drawBitmap;
  }

  closeMask() {
    if (this.nv.drawBitmap) this.nv.closeDrawing();
  }

  refreshMask() {
    this.nv.refreshDrawing(true);
  }

  styleMask(visible, contour, opacity) {
    this.nv.drawRimOpacity = visible && contour ? 1 : -1;
    this.nv.setDrawOpacity(visible ? (contour ? FAINT : opacity) : 0);
  }

  /** Show or hide each region of the mask. */
  showRegions(visible) {
    this.nv.setDrawColormap(drawingColours(visible));
  }

  startDrawing() {
    if (!this.nv.drawBitmap) this.nv.createEmptyDrawing();
    this.nv.drawClearAllUndoBitmaps();
    this.nv.drawAddUndoBitmap();
    this.nv.setDrawingEnabled(true);
    this.show3d(false); // every stroke would draw it anew
  }

  stopDrawing() {
    this.nv.setDrawingEnabled(false);
    this.show3d(!this.isLarge);
  }

  /** Of a large scan, 3D is shown only alone: each move of the cross-hairs draws it anew. */
  setLarge(isLarge) {
    this.isLarge = isLarge;
    this.show3d(!isLarge);
  }

  /** Whether 3D is shown beside the three planes. */
  show3d(shown) {
    this.nv.opts.multiplanarShowRender = shown ? SHOW_RENDER.ALWAYS : SHOW_RENDER.NEVER;
    this.nv.drawScene();
  }

  /** Draw with a region's number, or erase with 0. A filled stroke includes what it surrounds. */
  setPen(number, filled, size) {
    this.nv.opts.penSize = size;
    this.nv.setPenValue(number, filled);
  }

  undo() {
    this.nv.drawUndo();
  }

  setLayout(name) {
    this.layout = name;
    this.nv.setSliceType(LAYOUTS[name]);
  }

  get axis() {
    return SLICE_AXIS[this.layout];
  }

  /** The index of the slice along the axis of the layout, counted from 0. */
  get slice() {
    return Math.round(this.nv.frac2vox(this.nv.scene.crosshairPos)[this.axis]);
  }

  get slices() {
    return this.image ? this.image.dimsRAS[this.axis + 1] : 1;
  }

  moveSlices(count) {
    const move = [0, 0, 0];
    move[this.axis] = count;
    this.nv.moveCrosshairInVox(...move);
  }

  setSlice(index) {
    this.moveSlices(index - this.slice);
  }

  /** Put the cross-hairs into the middle of the mask, on the slice with most of it. */
  centreOnMask() {
    const [, width, height, depth] = this.image.dimsRAS;
    const plane = fullestPlane(this.mask, width * height, depth);
    if (plane < 0) return;
    const middle = middleOfPlane(this.mask, plane, width, height);
    this.nv.scene.crosshairPos = this.nv.vox2frac([...middle, plane]);
    this.nv.drawScene();
    this.onSlice();
  }

  setWindow(low, high) {
    this.image.cal_min = low;
    this.image.cal_max = high;
    this.nv.updateGLVolume();
  }

  resetWindow() {
    this.setWindow(this.image.robust_min, this.image.robust_max);
  }
}

/** The plane with most of the mask; -1 if the mask is empty. */
function fullestPlane(mask, size, depth) {
  let fullest = -1;
  let most = 0;
  for (let plane = 0; plane < depth; plane++) {
    let count = 0;
    for (let voxel = plane * size; voxel < (plane + 1) * size; voxel++) {
      if (mask[voxel] > 0) count++;
    }
    if (count > most) {
      most = count;
      fullest = plane;
    }
  }
  return fullest;
}

function middleOfPlane(mask, z, width, height) {
  let count = 0;
  let sumX = 0;
  let sumY = 0;
  const start = z * width * height;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (mask[start + y * width + x] > 0) {
        count++;
        sumX += x;
        sumY += y;
      }
    }
  }
  return [Math.round(sumX / count), Math.round(sumY / count)];
}

/** NiiVue tells by the name whether to unpack: gzip starts with the bytes 31 and 139. */
function fileName(bytes) {
  const [first, second] = new Uint8Array(bytes, 0, 2);
  return first === 31 && second === 139 ? "volume.nii.gz" : "volume.nii";
}
