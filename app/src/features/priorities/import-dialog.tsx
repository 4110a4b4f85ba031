import { useQuery } from "@tanstack/react-query";
import { DownloadIcon } from "lucide-react";
import { useState } from "react";
import { FormField } from "@/components/form-field";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";
import { Dialog, DialogContent, DialogForm } from "@/components/ui/dialog";
import { Input } from "@/components/ui/input";
import { Progress } from "@/components/ui/progress";
import { decodeText, saveFile } from "@/lib/csv";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import {
  counted,
  fileLimit,
  type ParsedImport,
  parsePriorities,
  planLimit,
  template,
  templateName,
} from "./import-csv";
import { useImportPriorities } from "./import-mutation";
import { priorityListQuery } from "./queries";

interface ImportDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  planId: string;
}

const largestBytes = 10 * 1024 * 1024;
const shownRows = 5;

/** Priorities from a CSV file: all of them, or none when any line is wrong. */
export function ImportDialog({ open, onOpenChange, planId }: ImportDialogProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        size="wide"
        title="Import Priorities"
        description="From a CSV file with the columns title and description. Nothing is imported when any line is wrong."
      >
        <ImportForm planId={planId} onDone={() => onOpenChange(false)} />
      </DialogContent>
    </Dialog>
  );
}

function ImportForm({ planId, onDone }: { planId: string; onDone: () => void }) {
  const importAll = useImportPriorities(planId);
  const { data: existing = [] } = useQuery(priorityListQuery(planId));
  const [parsed, setParsed] = useState<ParsedImport | null>(null);
  const [percent, setPercent] = useState<number | null>(null);
  const priorities = parsed && "priorities" in parsed ? parsed.priorities : null;

  async function read(file: File | undefined) {
    setParsed(null);
    if (!file) return setPercent(null);
    try {
      if (!/\.csv$/i.test(file.name)) throw new Error("Please choose a file whose name ends in .csv.");
      if (file.size > largestBytes) throw new Error("This file is larger than 10 MB.");
      setPercent(10);
      const bytes = new Uint8Array(await file.arrayBuffer());
      setPercent(30);
      setParsed(parsePriorities(decodeText(bytes), existing.length));
      setPercent(50);
    } catch (error) {
      setPercent(null);
      toast.error("Error processing file", { description: messageOf(error) });
    }
  }

  async function start() {
    if (!parsed) return void toast.error("No file selected");
    if (!priorities || priorities.length === 0) return void toast.error("No valid priorities found");
    const done = await importAll.mutateAsync(priorities).catch(() => false);
    if (!done) return;
    setPercent(100);
    onDone();
  }

  return (
    <DialogForm
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
      busy={importAll.isPending}
      dirty={false}
      submitLabel={priorities ? `Import ${counted(priorities.length)}` : "Import"}
      busyLabel="Importing..."
    >
      <Button variant="secondary" className="justify-self-start" onClick={() => saveFile(templateName, template)}>
        <DownloadIcon aria-hidden />
        Download template
      </Button>
      <FormField
        label="CSV file"
        hint={`At most ${fileLimit} priorities per file. A plan holds up to ${planLimit}; this one has ${existing.length}.`}
        required
      >
        <Input
          type="file"
          accept=".csv"
          className="h-auto p-2 file:me-3 file:h-8 file:rounded-md file:border-0 file:bg-muted file:px-3 file:font-medium md:h-auto"
          onChange={(event) => void read(event.target.files?.[0])}
        />
      </FormField>
      {percent !== null && <Progress percent={percent} label="Progress of the import" />}
      {parsed && "errors" in parsed && (
        <Alert role="alert" tone="destructive" title="Nothing can be imported from this file">
          <ul className="grid max-h-60 gap-0.5 overflow-y-auto">
            {parsed.errors.map((error) => (
              <li key={error}>{error}</li>
            ))}
          </ul>
        </Alert>
      )}
      {priorities && (
        <section aria-label="Preview" className="rounded-md border">
          <h3 className="border-b px-3 py-2 font-semibold text-sm">{counted(priorities.length)}</h3>
          <ul className="divide-y">
            {priorities.slice(0, shownRows).map((priority, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the rows of a file have nothing else, and stay where they are
              <li key={index} className="px-3 py-2 text-sm [overflow-wrap:anywhere]">
                <p className="font-medium">{priority.title}</p>
                <p className="line-clamp-2 text-muted-foreground">{priority.description}</p>
              </li>
            ))}
          </ul>
          {priorities.length > shownRows && (
            <p className="border-t px-3 py-2 text-muted-foreground text-sm">
              and {(priorities.length - shownRows).toLocaleString("en-US")} more
            </p>
          )}
        </section>
      )}
    </DialogForm>
  );
}
