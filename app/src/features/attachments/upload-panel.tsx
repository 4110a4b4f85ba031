import { UploadIcon, XIcon } from "lucide-react";
import { type DragEvent, useId, useRef, useState } from "react";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Input } from "@/components/ui/input";
import { Progress } from "@/components/ui/progress";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { cn } from "@/lib/cn";
import { acceptedEndings, formatSize, refusalOf, titleFaultOf, titleOf } from "./file-types";
import { useUploadAttachment } from "./mutations";
import { chunkBytes } from "./upload";

interface Chosen {
  id: number;
  file: File;
  title: string;
  state: "waiting" | "uploading" | "failed";
  /** Null where it is not known: what is sent at once. */
  percent: number | null;
  stop: AbortController;
}

let chosenSoFar = 0;
const mostAtOnce = 50;

/** Choose or drop files, give them titles, send them. */
export function UploadPanel({ planId }: { planId: string }) {
  const { mutateAsync: upload } = useUploadAttachment(planId);
  const input = useRef<HTMLInputElement>(null);
  const hintId = useId();
  const [chosen, setChosen] = useState<Chosen[]>([]);
  const [refused, setRefused] = useState<string[]>([]);
  // Of the file that is yet to be chosen.
  const [title, setTitle] = useState("");
  const [asked, setAsked] = useState(false);
  const [dragging, setDragging] = useState(false);
  const busy = chosen.some(({ state }) => state === "uploading");

  const change = (id: number, next: Partial<Chosen>) =>
    setChosen((all) => all.map((one) => (one.id === id ? { ...one, ...next } : one)));
  const drop = (id: number) => setChosen((all) => all.filter((one) => one.id !== id));

  function choose(files: Iterable<File>) {
    const list = [...files].slice(0, mostAtOnce);
    setAsked(false);
    setRefused(
      list.flatMap((file) => {
        const reason = refusalOf(file);
        return reason ? [`${file.name}: ${reason}`] : [];
      }),
    );
    const taken = list
      .filter((file) => !refusalOf(file))
      .map((file, index): Chosen => {
        chosenSoFar += 1;
        const stop = new AbortController();
        const typed = index === 0 && title.trim() !== "" ? title : titleOf(file.name);
        return { id: chosenSoFar, file, title: typed, state: "waiting", percent: 0, stop };
      });
    setChosen((all) => [...all, ...taken]);
    if (taken.length > 0) setTitle("");
  }

  async function start() {
    setAsked(true);
    if (chosen.length === 0 || chosen.some((one) => titleFaultOf(one.title))) return;
    // One after the other: the same file twice would be two uploads of one fingerprint.
    let allSent = true;
    for (const { id, file, title, stop } of chosen) {
      if (stop.signal.aborted) continue;
      change(id, { state: "uploading", percent: file.size > chunkBytes ? 0 : null });
      try {
        await upload({ title, file, signal: stop.signal, onProgress: (percent) => change(id, { percent }) });
        drop(id);
      } catch {
        // Said by a toast; the file stays in the list to be tried again, unless the person took it out.
        change(id, { state: "failed" });
        allSent = false;
      }
    }
    if (allSent) setAsked(false);
  }

  function cancel({ id, stop }: Chosen) {
    stop.abort();
    drop(id);
    setAsked(false);
  }

  const dropZone = {
    onDragOver: (event: DragEvent) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      setDragging(true);
    },
    onDragLeave: () => setDragging(false),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setDragging(false);
      choose(event.dataTransfer.files);
    },
  };

  return (
    <Card className="p-4 print:hidden">
      <form
        aria-label="Upload files"
        noValidate
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <div
          {...dropZone}
          className={cn(
            "flex flex-wrap items-center gap-x-4 gap-y-3 rounded-md border border-input border-dashed p-4 transition-colors",
            dragging && "border-primary bg-primary-soft",
          )}
        >
          <Button variant="secondary" aria-describedby={hintId} onClick={() => input.current?.click()}>
            <UploadIcon aria-hidden />
            Choose files
          </Button>
          <p id={hintId} className="min-w-0 text-muted-foreground text-sm">
            or drop them here. PDF, pictures, Office and OpenDocument files, text, CSV or ZIP, up to 50 MB each.
          </p>
          <input
            ref={input}
            type="file"
            multiple
            accept={acceptedEndings}
            aria-label="Files"
            tabIndex={-1}
            className="sr-only"
            onChange={(event) => {
              choose(event.target.files ?? []);
              // The same file can be chosen again.
              event.target.value = "";
            }}
          />
        </div>
        {refused.length > 0 && (
          <Alert role="alert" tone="destructive" title="Not everything can be uploaded">
            <ul className="grid gap-1">
              {refused.map((reason) => (
                <li key={reason}>{reason}</li>
              ))}
            </ul>
          </Alert>
        )}
        {chosen.length === 0 && (
          <FormField
            label="Title"
            error={asked ? (titleFaultOf(title) ?? undefined) : undefined}
            hint="Left empty, it becomes the file's name."
            required
          >
            <Input autoComplete="off" value={title} onChange={(event) => setTitle(event.target.value)} />
          </FormField>
        )}
        {chosen.length > 0 && (
          <ul className="grid gap-3">
            {chosen.map((one) => (
              <li key={one.id} className="grid gap-2 rounded-md border p-3">
                <div className="flex items-start gap-2">
                  <FormField
                    label={`Title of ${one.file.name}`}
                    error={asked ? (titleFaultOf(one.title) ?? undefined) : undefined}
                    hint={formatSize(one.file.size)}
                    required
                    className="grow"
                  >
                    <Input
                      autoComplete="off"
                      value={one.title}
                      disabled={one.state === "uploading"}
                      onChange={(event) => change(one.id, { title: event.target.value })}
                    />
                  </FormField>
                  <Button
                    variant="ghost"
                    size="icon"
                    aria-label={
                      one.state === "uploading" ? `Cancel the upload of ${one.file.name}` : `Remove ${one.file.name}`
                    }
                    onClick={() => cancel(one)}
                  >
                    <XIcon aria-hidden />
                  </Button>
                </div>
                {one.state === "uploading" && (
                  <div className="flex items-center gap-3 text-sm tabular-nums">
                    <Progress percent={one.percent} label={`Upload of ${one.file.name}`} className="grow" />
                    {one.percent === null ? "Sending..." : `${one.percent}%`}
                  </div>
                )}
                {one.state === "failed" && <p className="text-destructive text-sm">This file was not uploaded.</p>}
              </li>
            ))}
          </ul>
        )}
        <div className="flex flex-wrap items-center gap-3">
          <SubmitButton busy={busy} busyLabel="Uploading..." disabled={busy}>
            Upload
          </SubmitButton>
          {asked && chosen.length === 0 && refused.length === 0 && !busy && (
            <p role="alert" className="text-destructive text-sm">
              Please select a file to upload
            </p>
          )}
        </div>
      </form>
      <UnsavedGuard when={busy} />
    </Card>
  );
}
