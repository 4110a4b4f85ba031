// The bucket's own list (migrations/0011_buckets.sql), by the ending: what a browser makes of a file's type differs by system.
const types: Record<string, string> = {
  pdf: "application/pdf",
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  txt: "text/plain",
  csv: "text/csv",
  md: "text/markdown",
  rtf: "application/rtf",
  zip: "application/zip",
  doc: "application/msword",
  xls: "application/vnd.ms-excel",
  ppt: "application/vnd.ms-powerpoint",
  docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  pptx: "application/vnd.openxmlformats-officedocument.presentationml.presentation",
  odt: "application/vnd.oasis.opendocument.text",
  ods: "application/vnd.oasis.opendocument.spreadsheet",
  odp: "application/vnd.oasis.opendocument.presentation",
};

const mebibyte = 1024 * 1024;
const largestFile = 50 * mebibyte;
const titleLimit = 200;

/** For a file input. */
export const acceptedEndings = Object.keys(types)
  .map((ending) => `.${ending}`)
  .join(",");

export function endingOf(name: string) {
  return /\.([^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
}

export function typeOf(name: string): string | null {
  return types[endingOf(name)] ?? null;
}

/** Why a file cannot be kept here, in words; null when it can. */
export function refusalOf({ name, size }: Pick<File, "name" | "size">): string | null {
  if (!typeOf(name)) {
    return "This type of file cannot be kept here. Use PDF, pictures, Office or OpenDocument files, text, CSV or ZIP.";
  }
  if (size === 0) return "This file is empty.";
  if (size > largestFile) return `This file is larger than ${largestFile / mebibyte} MB.`;
  return null;
}

/** The file's name without its ending. */
export function titleOf(name: string) {
  return name
    .replace(/\.[^./]+$/, "")
    .trim()
    .slice(0, titleLimit);
}

/** Why a title will not do; null when it will. */
export function titleFaultOf(title: string) {
  if (title.trim() === "") return "Please provide a title for the file";
  return title.length > titleLimit ? `The title must be at most ${titleLimit} characters` : null;
}

/** What the person's browser can show of it. */
export function previewOf(path: string): "image" | "pdf" | null {
  const type = typeOf(path);
  if (type?.startsWith("image/")) return "image";
  return type === "application/pdf" ? "pdf" : null;
}

/** "3.4 MB" */
export function formatSize(bytes: number) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < mebibyte ? `${Math.round(bytes / 1024)} kB` : `${(bytes / mebibyte).toFixed(1)} MB`;
}
