const blocks = "p, div, li, h1, h2, h3, h4, h5, h6, blockquote, pre";

/** Plain text as the HTML that descriptions are stored in: blank lines part paragraphs. Empty text is null. */
export function textToHtml(text: string): string | null {
  const paragraphs = text
    .replace(/\r\n?/g, "\n")
    .split(/\n{2,}/)
    .map((paragraph) => paragraph.trim())
    .filter((paragraph) => paragraph !== "");
  if (paragraphs.length === 0) return null;
  return paragraphs.map((paragraph) => `<p>${escapeHtml(paragraph).replaceAll("\n", "<br>")}</p>`).join("");
}

/** The words of stored HTML, with its lines and paragraphs, for editing as plain text. */
export function htmlToText(html: string | null): string {
  if (!html) return "";
  // A document of its own: nothing in it runs or loads.
  const { body } = new DOMParser().parseFromString(html, "text/html");
  for (const lineBreak of body.querySelectorAll("br")) lineBreak.replaceWith("\n");
  for (const block of body.querySelectorAll(blocks)) block.append(block.matches("li") ? "\n" : "\n\n");
  return (body.textContent ?? "").replace(/\n{3,}/g, "\n\n").trim();
}

function escapeHtml(text: string) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
