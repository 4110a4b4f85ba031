import { CircleAlertIcon, RotateCwIcon } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/components/ui/button";
import { Spinner } from "@/components/ui/spinner";
import { cn } from "@/lib/cn";

interface PageStateProps {
  art?: ReactNode;
  title: string;
  description: string;
  /** `h1` where this is the whole page. */
  heading?: "h1" | "h2";
  className?: string;
  children?: ReactNode;
}

/** A quiet block in the middle: nothing here yet, nothing found, something failed. */
export function PageState({ art, title, description, heading: Heading = "h2", className, children }: PageStateProps) {
  return (
    <div className={cn("flex flex-col items-center px-6 py-14 text-center sm:py-20", className)}>
      {art && <div className="mb-6">{art}</div>}
      <Heading className="text-heading">{title}</Heading>
      <p className="mt-2 max-w-md text-pretty text-muted-foreground">{description}</p>
      {children && <div className="mt-6 flex flex-wrap justify-center gap-3">{children}</div>}
    </div>
  );
}

interface ErrorStateProps {
  title: string;
  description: string;
  heading?: "h1" | "h2";
  retrying?: boolean;
  onRetry: () => void;
}

export function ErrorState({ retrying = false, onRetry, ...props }: ErrorStateProps) {
  return (
    <div role="alert">
      <PageState
        {...props}
        art={
          <span className="grid size-12 place-items-center rounded-full bg-destructive-soft text-destructive">
            <CircleAlertIcon className="size-6" aria-hidden />
          </span>
        }
      >
        <Button variant="secondary" disabled={retrying} onClick={onRetry}>
          {retrying ? <Spinner /> : <RotateCwIcon aria-hidden />}
          Try again
        </Button>
      </PageState>
    </div>
  );
}

/** For a wait whose shape is not known yet; where it is, use skeletons. */
export function LoadingState({ label }: { label: string }) {
  return (
    <div role="status" className="grid min-h-[50dvh] place-items-center">
      <Spinner className="size-7 text-primary" />
      <span className="sr-only">{label}</span>
    </div>
  );
}
