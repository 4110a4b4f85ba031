const units = ["B", "KB", "MB", "GB", "TB"];

/** "0 B", "1.5 MB": of 1,024 each, as the operating systems count. */
export function formatBytes(bytes: number) {
  const step = bytes < 1 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), units.length - 1);
  const amount = bytes / 1024 ** step;
  return `${amount.toLocaleString("en-US", { maximumFractionDigits: amount < 10 && step > 0 ? 1 : 0 })} ${units[step]}`;
}
