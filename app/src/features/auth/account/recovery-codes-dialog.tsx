import { CopyIcon, DownloadIcon } from "lucide-react";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";
import { Dialog, DialogClose, DialogContent } from "@/components/ui/dialog";
import { DialogBody, DialogFooter } from "@/components/ui/dialog-panel";
import { saveFile } from "@/lib/csv";
import { toast } from "@/lib/toast";

interface CodesDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  codes: string[];
}

/** Shows new recovery codes, which the server does not return again. */
export function CodesDialog({ open, onOpenChange, codes }: CodesDialogProps) {
  const grouped = codes.map((code) => code.replace(/(.{4})(?=.)/g, "$1-"));
  const text = `${grouped.join("\n")}\n`;

  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      toast.success("Recovery codes copied");
    } catch {
      // The browser denies the clipboard, or the page was loaded over plain HTTP.
      toast.error("The codes could not be copied", { description: "Download them instead." });
    }
  }

  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        title="Your recovery codes"
        description="Each code logs you in once, after your password, if you do not have your authenticator app."
      >
        <DialogBody className="grid content-start gap-5">
          <ul className="grid justify-center gap-x-8 gap-y-2 font-mono text-sm sm:grid-cols-2">
            {grouped.map((code) => (
              <li key={code}>{code}</li>
            ))}
          </ul>
          <div className="flex flex-wrap gap-3">
            <Button variant="secondary" size="small" onClick={() => void copy()}>
              <CopyIcon aria-hidden />
              Copy
            </Button>
            <Button
              variant="secondary"
              size="small"
              onClick={() => saveFile("basalt-recovery-codes.txt", text, "text/plain")}
            >
              <DownloadIcon aria-hidden />
              Download
            </Button>
          </div>
          <Alert tone="warning">
            <p>Keep them where you find them without your phone. They are not shown again.</p>
          </Alert>
        </DialogBody>
        <DialogFooter>
          <DialogClose asChild>
            <Button>I have saved my codes</Button>
          </DialogClose>
        </DialogFooter>
      </DialogContent>
    </Dialog>
  );
}
