import { useQuery } from "@tanstack/react-query";
import { ErrorState } from "@/components/page-state";
import { Dialog, DialogContent } from "@/components/ui/dialog";
import { DialogBody } from "@/components/ui/dialog-panel";
import { Skeleton } from "@/components/ui/skeleton";
import { messageOf } from "@/lib/errors";
import { previewOf } from "./file-types";
import { signedUrl } from "./mutations";
import type { Attachment } from "./queries";

interface PreviewDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  file: Attachment;
}

/** A look at a picture or a PDF, without saving it. */
export function PreviewDialog({ open, onOpenChange, file }: PreviewDialogProps) {
  const address = useQuery({
    queryKey: ["attachments", "address", file.file_url],
    queryFn: () => signedUrl(file.file_url),
    enabled: open,
    // Shorter than the address is good for.
    staleTime: 30 * 60_000,
  });
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent size="widest" title={file.title} description="Preview">
        <DialogBody>
          {address.isError ? (
            <ErrorState
              size="small"
              heading="h3"
              title="This file could not be shown"
              description={messageOf(address.error)}
              onRetry={() => void address.refetch()}
            />
          ) : !address.data ? (
            <Skeleton className="h-[60dvh]" />
          ) : previewOf(file.file_url) === "image" ? (
            <img
              src={address.data}
              alt={file.title}
              className="mx-auto max-h-[70dvh] min-h-24 rounded-md object-contain"
            />
          ) : (
            <iframe src={address.data} title={file.title} className="h-[70dvh] w-full rounded-md border bg-muted" />
          )}
        </DialogBody>
      </DialogContent>
    </Dialog>
  );
}
