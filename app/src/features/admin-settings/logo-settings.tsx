import { useQuery } from "@tanstack/react-query";
import { UploadIcon } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { ErrorState } from "@/components/page-state";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { cn } from "@/lib/cn";
import { messageOf } from "@/lib/errors";
import { safeUrl } from "@/lib/safe-url";
import { toast } from "@/lib/toast";
import {
  type LogoSize,
  logoFileQuery,
  logoListQuery,
  logoSizes,
  previousLogo,
  requireImage,
  useRevertLogo,
  useUploadLogo,
} from "./queries";

const uses: Record<LogoSize, { title: string; use: string; picture: string }> = {
  regular: { title: "Regular", use: "Header and footer", picture: "max-h-16 max-w-48" },
  small: { title: "Small", use: "Mobile and compact areas", picture: "size-10" },
  favicon: { title: "Favicon", use: "Browser tab", picture: "size-8" },
};

export function LogoSettings() {
  const logos = useQuery(logoListQuery());
  if (!logos.isPending && !logos.data) {
    return (
      <Card>
        <ErrorState
          size="small"
          title="Failed to load logos."
          description={messageOf(logos.error)}
          retrying={logos.isFetching}
          onRetry={() => void logos.refetch()}
        />
      </Card>
    );
  }
  return (
    <Card className="p-5 sm:p-6">
      <h2 className="text-heading">Logo</h2>
      <p className="mt-1 text-muted-foreground text-sm">
        PNG, JPEG, GIF, WebP, SVG or ICO, 5 MB at most. Everyone who has the site open sees a new one at once.
      </p>
      <ul className="mt-6 grid gap-4 md:grid-cols-3">
        {logoSizes.map((size) => (
          <LogoCard key={size} size={size} url={logos.data?.get(size)} loading={logos.isPending} />
        ))}
      </ul>
    </Card>
  );
}

interface LogoCardProps {
  size: LogoSize;
  url: string | undefined;
  loading: boolean;
}

/** A chosen picture is shown first, on light and dark, and saved by a press of its own. */
function LogoCard({ size, url, loading }: LogoCardProps) {
  const { title, use, picture } = uses[size];
  const upload = useUploadLogo(size);
  const revert = useRevertLogo(size);
  const files = useQuery(logoFileQuery());
  const input = useRef<HTMLInputElement>(null);
  const [draft, setDraft] = useState<{ file: File; url: string } | null>(null);
  useEffect(() => {
    if (draft) return () => URL.revokeObjectURL(draft.url);
  }, [draft]);
  const image = draft?.url ?? safeUrl(url);
  const previous = files.data ? previousLogo(size, url, files.data) : null;
  const busy = upload.isPending || revert.isPending;

  async function choose(file: File) {
    try {
      await requireImage(file);
      setDraft({ file, url: URL.createObjectURL(file) });
    } catch (error) {
      toast.error(`Failed to upload ${size} logo. Please try again.`, { description: messageOf(error) });
    }
  }

  return (
    <li className="grid content-start gap-3 rounded-lg border p-4">
      <div>
        <h3 className="text-label">{title}</h3>
        <p className="text-muted-foreground text-sm">{use}</p>
      </div>
      {loading ? (
        <Skeleton className="h-28" />
      ) : image ? (
        <div className="grid grid-cols-2 overflow-hidden rounded-md border">
          {grounds.map(({ name, looks }) => (
            <div key={name} className={cn("grid h-28 place-items-center overflow-hidden p-3", looks)}>
              <img
                src={image}
                alt={`${title} logo${draft ? ", not saved yet" : ""}, on ${name}`}
                className={cn("max-w-full object-contain", picture)}
              />
            </div>
          ))}
        </div>
      ) : (
        <p className="grid h-28 place-items-center rounded-md bg-muted text-muted-foreground text-sm">None</p>
      )}
      <input
        ref={input}
        type="file"
        accept="image/png,image/jpeg,image/gif,image/webp,image/svg+xml,image/x-icon,image/vnd.microsoft.icon"
        className="sr-only"
        tabIndex={-1}
        aria-label={`File for the ${size} logo`}
        onChange={({ target }) => {
          const file = target.files?.[0];
          // The same file can be chosen again after a failure.
          target.value = "";
          if (file) void choose(file);
        }}
      />
      {draft ? (
        <div className="flex flex-wrap gap-2">
          <SubmitButton
            type="button"
            busy={upload.isPending}
            busyLabel="Uploading..."
            disabled={busy}
            onClick={() => upload.mutate(draft.file, { onSuccess: () => setDraft(null) })}
          >
            Save {size} logo
          </SubmitButton>
          <Button variant="secondary" disabled={busy} onClick={() => setDraft(null)}>
            Discard
          </Button>
        </div>
      ) : (
        <div className="flex flex-wrap gap-2">
          <Button variant="secondary" disabled={busy || loading} onClick={() => input.current?.click()}>
            <UploadIcon aria-hidden />
            Upload {size} logo
          </Button>
          {previous && (
            <SubmitButton
              type="button"
              variant="ghost"
              busy={revert.isPending}
              busyLabel="Reverting..."
              disabled={busy}
              aria-label={`Revert the ${size} logo`}
              onClick={() => revert.mutate(previous)}
            >
              Revert
            </SubmitButton>
          )}
        </div>
      )}
      <UnsavedGuard when={draft !== null && !upload.isPending} />
    </li>
  );
}

/** Both themes' backgrounds, whatever the theme of this page. */
const grounds = [
  { name: "light", looks: "bg-[#fbfaf7]" },
  { name: "dark", looks: "bg-[#131a1c]" },
];
