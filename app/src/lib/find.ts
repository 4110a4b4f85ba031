export const findAsked = "basalt:find";

/** Opens the command palette, which belongs to the app's frame. */
export function find() {
  window.dispatchEvent(new Event(findAsked));
}
