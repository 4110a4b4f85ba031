import { useQuery } from "@tanstack/react-query";
import { UploadIcon } from "lucide-react";
import { useRef } from "react";
import { ErrorState } from "@/components/page-state";
import { SubmitButton } from "@/components/submit-button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { cn } from "@/lib/cn";
import { messageOf } from "@/lib/errors";
import { safeUrl } from "@/lib/safe-url";
import { type LogoSize, logoListQuery, logoSizes, useUploadLogo } from "./queries";

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

function LogoCard({ size, url, loading }: LogoCardProps) {
  const { title, use, picture } = uses[size];
  const upload = useUploadLogo(size);
  const input = useRef<HTMLInputElement>(null);
  const image = safeUrl(url);
  return (
    <li className="grid content-start gap-3 rounded-lg border p-4">
      <div>
        <h3 className="text-label">{title}</h3>
        <p className="text-muted-foreground text-sm">{use}</p>
      </div>
      <div className="grid h-28 place-items-center overflow-hidden rounded-md bg-muted p-4">
        {loading ? (
          <Skeleton className="h-10 w-24 bg-border" />
        ) : image ? (
          <img src={image} alt={`${title} logo`} className={cn("object-contain", picture)} />
        ) : (
          <p className="text-muted-foreground text-sm">None</p>
        )}
      </div>
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
          if (file) upload.mutate(file);
        }}
      />
      <SubmitButton
        type="button"
        variant="secondary"
        busy={upload.isPending}
        busyLabel="Uploading..."
        disabled={upload.isPending || loading}
        onClick={() => input.current?.click()}
      >
        <UploadIcon aria-hidden />
        Upload {size} logo
      </SubmitButton>
    </li>
  );
}
