import { useQuery } from "@tanstack/react-query";
import { DownloadIcon, EyeIcon, FileIcon, FileTextIcon, FolderOpenIcon, ImageIcon, Trash2Icon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { LimitNote } from "@/components/limit-note";
import { ErrorState, PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { formatBytes } from "@/lib/bytes";
import { formatAge, formatInstant } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { planLimitsQuery } from "@/lib/plan-limits";
import { toast } from "@/lib/toast";
import { endingOf, previewOf } from "./file-types";
import { signedUrl, useDeleteAttachment } from "./mutations";
import { PreviewDialog } from "./preview-dialog";
import { type Attachment, attachmentListQuery } from "./queries";
import { UploadPanel } from "./upload-panel";

const icons = { image: ImageIcon, pdf: FileTextIcon };

/** The files of a plan. */
export function Resources({ planId, editable }: { planId: string; editable: boolean }) {
  const files = useQuery(attachmentListQuery(planId));
  const limits = useQuery({ ...planLimitsQuery(planId), enabled: editable }).data ?? null;
  const deleteFile = useDeleteAttachment(planId);
  const [openDialog, setOpenDialog] = useState<"preview" | "delete" | null>(null);
  const [subject, setSubject] = useState<Attachment | null>(null);
  const closeUnless = (open: boolean) => open || setOpenDialog(null);

  function show(dialog: "preview" | "delete", file: Attachment) {
    setSubject(file);
    setOpenDialog(dialog);
  }

  return (
    <section aria-label="Resources" className="grid gap-4">
      <h2 className="flex min-h-10 items-center gap-1.5 text-heading">
        Resources
        {files.data && <span className="font-normal text-muted-foreground tabular-nums">({files.data.length})</span>}
      </h2>
      {limits?.maxBytes != null && (
        <div className="-mb-4">
          <LimitNote
            text={`${formatBytes(limits.bytes)} of ${formatBytes(limits.maxBytes)}`}
            used={limits.bytes}
            of={limits.maxBytes}
            name={limits.name}
            isMine={limits.isMine}
            more="more files"
          />
        </div>
      )}
      {editable && <UploadPanel planId={planId} />}
      <Card>
        {files.isPending ? (
          <div role="status" className="grid gap-4 p-4">
            <span className="sr-only">Loading files...</span>
            <Skeleton className="h-9" />
            <Skeleton className="h-9" />
          </div>
        ) : !files.data ? (
          <ErrorState
            title="Failed to load files"
            heading="h3"
            description={messageOf(files.error)}
            retrying={files.isFetching}
            onRetry={() => void files.refetch()}
          />
        ) : files.data.length === 0 ? (
          <PageState
            art={<FolderOpenIcon className="size-10 text-muted-foreground" aria-hidden />}
            heading="h3"
            title="No files yet"
            description={
              editable
                ? "Keep here what belongs to the plan: budgets, reports, letters of support."
                : "The plan's owners and managers have not added any."
            }
          />
        ) : (
          <ul aria-label="Files">
            {files.data.map((file) => {
              const preview = previewOf(file.file_url);
              const Icon = preview ? icons[preview] : FileIcon;
              return (
                <li
                  key={file.id}
                  className="flex flex-wrap items-center gap-x-3 gap-y-1 border-t px-4 py-2.5 first:border-t-0"
                >
                  <Icon className="size-5 shrink-0 text-muted-foreground" aria-hidden />
                  <div className="min-w-0 grow basis-40">
                    <p dir="auto" className="font-medium text-sm [overflow-wrap:anywhere]">
                      {file.title}
                    </p>
                    <p className="text-muted-foreground text-xs">
                      {endingOf(file.file_url).toUpperCase()} · added{" "}
                      <time dateTime={file.created_at} title={formatInstant(file.created_at)}>
                        {formatAge(file.created_at)}
                      </time>
                    </p>
                  </div>
                  <div className="-mr-2 ml-auto flex print:hidden">
                    {preview && (
                      <Button
                        variant="ghost"
                        size="icon"
                        aria-label={`Preview ${file.title}`}
                        title="Preview"
                        onClick={() => show("preview", file)}
                      >
                        <EyeIcon aria-hidden />
                      </Button>
                    )}
                    <Button
                      variant="ghost"
                      size="icon"
                      aria-label={`Download ${file.title}`}
                      title="Download"
                      onClick={() => void download(file)}
                    >
                      <DownloadIcon aria-hidden />
                    </Button>
                    {editable && (
                      <Button
                        variant="ghost"
                        size="icon"
                        aria-label={`Delete ${file.title}`}
                        title="Delete"
                        className="hover:bg-destructive-soft hover:text-destructive"
                        onClick={() => show("delete", file)}
                      >
                        <Trash2Icon aria-hidden />
                      </Button>
                    )}
                  </div>
                </li>
              );
            })}
          </ul>
        )}
      </Card>
      {subject && (
        <>
          <PreviewDialog open={openDialog === "preview"} onOpenChange={closeUnless} file={subject} />
          <ConfirmDialog
            open={openDialog === "delete"}
            onOpenChange={closeUnless}
            title="Delete File"
            description={`Are you sure you want to delete “${subject.title}”? This action cannot be undone.`}
            confirmLabel="Delete File"
            busyLabel="Deleting..."
            onConfirm={() => deleteFile.mutateAsync(subject)}
          />
        </>
      )}
    </section>
  );
}

async function download({ file_url: path, title }: Attachment) {
  try {
    const link = document.createElement("a");
    link.href = await signedUrl(path, `${title}.${endingOf(path)}`);
    link.click();
  } catch (error) {
    toast.error("Error", { description: messageOf(error) });
  }
}
