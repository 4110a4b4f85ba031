/** Addresses in a text, separated by commas, semicolons, spaces or lines; in lower case, each once. */
export function addressesIn(text: string) {
  const words = text.toLowerCase().split(/[\s,;]+/);
  return [...new Set(words.filter((word) => word !== ""))];
}
