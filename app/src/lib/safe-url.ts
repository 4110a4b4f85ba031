/** An address for an image or a link that an administrator gave, or null where it is none that may be followed. */
export function safeUrl(url: string | null | undefined): string | null {
  if (!url) return null;
  try {
    const { protocol } = new URL(url, window.location.origin);
    return protocol === "https:" || protocol === "http:" ? url : null;
  } catch {
    return null;
  }
}
