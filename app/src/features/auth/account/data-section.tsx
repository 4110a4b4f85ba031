import type { User } from "@supabase/supabase-js";
import { DownloadIcon } from "lucide-react";
import { useState } from "react";
import { lazyDialog } from "@/components/lazy-part";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";

const DeleteDialog = lazyDialog(() => import("./delete-dialog").then(({ DeleteDialog }) => DeleteDialog));

/** The person's data: a copy of it. */
export function MyData({ user }: { user: User }) {
  const [busy, setBusy] = useState<"data" | "files" | null>(null);

  async function run(what: "data" | "files", work: () => Promise<unknown>) {
    setBusy(what);
    try {
      await work();
    } catch (error) {
      toast.error("Your data could not be downloaded", { description: messageOf(error) });
    } finally {
      setBusy(null);
    }
  }

  const saveData = () => run("data", async () => (await import("./my-data")).saveMyData(user));
  const saveFiles = () =>
    run("files", async () => {
      const { myFiles, saveMyFiles } = await import("./my-data");
      const files = await myFiles();
      if (files.length === 0) return toast.info("Your plans have no files");
      const missing = await saveMyFiles(files);
      if (missing === 0) return toast.success(files.length === 1 ? "1 file saved" : `${files.length} files saved`);
      toast.error(`${missing} of ${files.length} files could not be downloaded`);
    });

  return (
    <div className="flex flex-wrap gap-3">
      <SubmitButton
        type="button"
        variant="secondary"
        busy={busy === "data"}
        busyLabel="Collecting..."
        disabled={busy !== null}
        onClick={() => void saveData()}
      >
        <DownloadIcon aria-hidden />
        Download my data (JSON)
      </SubmitButton>
      <SubmitButton
        type="button"
        variant="secondary"
        busy={busy === "files"}
        busyLabel="Downloading..."
        disabled={busy !== null}
        onClick={() => void saveFiles()}
      >
        <DownloadIcon aria-hidden />
        Download my files
      </SubmitButton>
    </div>
  );
}

interface DeleteAccountProps {
  user: User;
  onDeleted: () => void;
}

export function DeleteAccount({ user, onDeleted }: DeleteAccountProps) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button variant="destructive" onClick={() => setOpen(true)}>
        Delete my account
      </Button>
      <DeleteDialog open={open} onOpenChange={setOpen} user={user} onDeleted={onDeleted} />
    </>
  );
}
