import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { planLimitsKey } from "@/lib/plan-limits";
import { deleteRow } from "@/lib/plan-rows";
import { type Attachment, attachmentKeys, bucket } from "./queries";
import { uploadFile } from "./upload";

interface NewAttachment {
  title: string;
  file: File;
  onProgress: (percent: number) => void;
  signal: AbortSignal;
}

export function useUploadAttachment(planId: string) {
  return useChange({
    done: "File uploaded successfully",
    failed: "Failed to upload file",
    isQuiet: (error) => error.name === "AbortError",
    refetches: [attachmentKeys.list(planId), planLimitsKey(planId)],
    change: async ({ title, file, onProgress, signal }: NewAttachment) => {
      const path = await uploadFile({ planId, file, onProgress, signal });
      const { error } = await basalt
        .from("plan_attachments")
        .insert({ plan_id: planId, title: title.trim(), file_url: path });
      if (error) {
        // Without its row nobody would ever find the file again.
        await basalt.storage.from(bucket).remove([path]);
        throw error;
      }
    },
  });
}

export function useDeleteAttachment(planId: string) {
  return useChange({
    done: "File deleted successfully",
    failed: "Failed to delete file",
    refetches: [attachmentKeys.list(planId), planLimitsKey(planId)],
    change: async ({ id, file_url: path }: Attachment) => {
      await deleteRow("plan_attachments", id, "file");
      const { error } = await basalt.storage.from(bucket).remove([path]);
      // The list is what people see: the row stays deleted.
      if (error) console.warn("The file of a deleted attachment could not be removed.", error);
    },
  });
}

/** An address of the file, good for an hour. `downloadAs` makes the browser save it, under that name. */
export async function signedUrl(path: string, downloadAs?: string) {
  const { data, error } = await basalt.storage
    .from(bucket)
    .createSignedUrl(path, 3600, downloadAs === undefined ? {} : { download: downloadAs });
  if (error) throw new Error("File not found", { cause: error });
  return data.signedUrl;
}
