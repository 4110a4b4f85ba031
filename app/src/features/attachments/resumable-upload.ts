import { Upload } from "tus-js-client";
import { basalt } from "@/lib/basalt";
import { typeOf } from "./file-types";
import { bucket } from "./queries";
import { chunkBytes, newPath, type UploadOptions } from "./upload";

/**
 * Sends a file in pieces and answers its path in the bucket. A piece that is lost on the way is sent again; an upload that
 * was cut off, by a closed tab say, goes on where it was when the same file is chosen again.
 */
export async function uploadInPieces({ planId, file, onProgress, signal }: UploadOptions): Promise<string> {
  let path = newPath(planId, file.name);
  return new Promise((resolve, reject) => {
    const upload = new Upload(file, {
      endpoint: `${window.location.origin}/storage/v1/upload/resumable`,
      chunkSize: chunkBytes,
      retryDelays: [0, 1000, 3000, 5000, 10_000],
      uploadDataDuringCreation: true,
      removeFingerprintOnSuccess: true,
      fingerprint: async ({ name, size, lastModified }) => ["basalt", planId, name, size, lastModified].join("|"),
      metadata: {
        bucketName: bucket,
        objectName: path,
        contentType: typeOf(file.name) ?? "",
        cacheControl: "3600",
      },
      onBeforeRequest: async (request) => {
        // Asked for each piece: a long upload outlives a token.
        const { data } = await basalt.auth.getSession();
        request.setHeader("authorization", `Bearer ${data.session?.access_token ?? ""}`);
        request.setHeader("x-upsert", "false");
      },
      onProgress: (sent, total) => onProgress(total === 0 ? 0 : Math.round((sent / total) * 100)),
      onSuccess: () => resolve(path),
      onError: (error) => reject(new Error(reasonOf(error))),
    });
    signal.addEventListener("abort", () => {
      void upload.abort(true).catch(() => undefined);
      reject(signal.reason);
    });
    upload.findPreviousUploads().then(([earlier]) => {
      if (signal.aborted) return;
      const known = earlier?.metadata.objectName;
      if (earlier && known?.startsWith(`${planId}/`)) {
        path = known;
        upload.resumeFromPreviousUpload(earlier);
      }
      upload.start();
    }, reject);
  });
}

/** The server's words where it answered, else what a person can do. */
function reasonOf(error: Error) {
  const answer = "originalResponse" in error ? error.originalResponse : null;
  const body =
    answer && typeof answer === "object" && "getBody" in answer && typeof answer.getBody === "function"
      ? String(answer.getBody()).trim()
      : "";
  return body || "The connection was lost. Choose the same file again to go on where it stopped.";
}
