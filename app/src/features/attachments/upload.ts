import { basalt } from "@/lib/basalt";
import { endingOf, typeOf } from "./file-types";
import { bucket } from "./queries";

export interface UploadOptions {
  planId: string;
  file: File;
  /** 0 to 100. */
  onProgress: (percent: number) => void;
  /** Stops it; what the server has so far is thrown away. */
  signal: AbortSignal;
}

/** The size of a piece that storage asks its clients to use; smaller files are sent at once. */
export const chunkBytes = 6 * 1024 * 1024;

/** Sends a file and answers its path in the bucket. */
export async function uploadFile(options: UploadOptions): Promise<string> {
  if (options.file.size <= chunkBytes) return uploadAtOnce(options);
  // Needed by large files alone.
  const { uploadInPieces } = await import("./resumable-upload");
  return uploadInPieces(options);
}

async function uploadAtOnce({ planId, file, onProgress, signal }: UploadOptions) {
  const path = newPath(planId, file.name);
  const store = basalt.storage.from(bucket);
  // By its ending: what a browser makes of a file's type differs by system.
  const typed = new File([file], file.name, { type: typeOf(file.name) ?? "" });
  const sent = store.upload(path, typed, { cacheControl: "3600", upsert: false });
  // The client cannot be stopped: what arrives after that is removed.
  const stopped = new Promise<never>((_resolve, reject) => {
    signal.addEventListener("abort", () => {
      void sent.then(() => store.remove([path]));
      reject(signal.reason);
    });
  });
  const { error } = await Promise.race([sent, stopped]);
  if (error) throw error;
  onProgress(100);
  return path;
}

export function newPath(planId: string, name: string) {
  const random = crypto.getRandomValues(new Uint32Array(2)).reduce((text, part) => text + part.toString(36), "");
  return `${planId}/${random}_${Date.now()}.${endingOf(name)}`;
}
