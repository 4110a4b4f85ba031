/** What the database takes at most; a title longer than this fits no card. */
export const titleLimit = 200;

/** Why this will not do as a title; null when it will. `name` is what the screen calls it. */
export function titleFaultOf(title: string, name = "Title") {
  const { length } = title.trim();
  if (length < 3) return `${name} must be at least 3 characters`;
  return length > titleLimit ? `${name} must be at most ${titleLimit} characters` : null;
}
