import { CircleAlertIcon, CloudOffIcon, RotateCwIcon } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/components/ui/button";
import { Spinner } from "@/components/ui/spinner";
import { useOnline } from "@/hooks/use-online";
import { cn } from "@/lib/cn";

interface PageStateProps {
  art?: ReactNode;
  title: string;
  description: string;
  /** `h1` where this is the whole page. */
  heading?: "h1" | "h2" | "h3";
  className?: string;
  /** `small` inside a card that holds more than this. */
  size?: "small" | "large";
  children?: ReactNode;
}

/** A quiet block in the middle: nothing here yet, nothing found, something failed. */
export function PageState({
  art,
  title,
  description,
  heading: Heading = "h2",
  className,
  size = "large",
  children,
}: PageStateProps) {
  const large = size === "large";
  return (
    <div
      className={cn(
        "flex flex-col items-center px-6 text-center [overflow-wrap:anywhere]",
        large ? "py-14 sm:py-20" : "py-8",
        className,
      )}
    >
      {art && <div className={large ? "mb-6" : "mb-4"}>{art}</div>}
      <Heading tabIndex={Heading === "h1" ? -1 : undefined} className={large ? "text-heading" : "text-label"}>
        {title}
      </Heading>
      <p className={cn("mt-2 max-w-md text-pretty text-muted-foreground", !large && "text-sm")}>{description}</p>
      {children && <div className="mt-6 flex flex-wrap justify-center gap-3">{children}</div>}
    </div>
  );
}

interface ErrorStateProps {
  title: string;
  description: string;
  heading?: "h1" | "h2" | "h3";
  size?: "small" | "large";
  retrying?: boolean;
  onRetry: () => void;
}

/** What could not be fetched, and the way to try again. Says so where the network itself is gone. */
export function ErrorState({ retrying = false, onRetry, ...props }: ErrorStateProps) {
  const online = useOnline();
  const Icon = online ? CircleAlertIcon : CloudOffIcon;
  return (
    <div role="alert">
      <PageState
        {...props}
        {...(!online && { description: "You are offline. It will be fetched when the connection is back." })}
        art={
          <span className="grid size-12 place-items-center rounded-full bg-destructive-soft text-destructive">
            <Icon className="size-6" aria-hidden />
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

/** For a wait whose shape is not known yet; where it is, use skeletons. A short wait shows nothing at all. */
export function LoadingState({ label }: { label: string }) {
  return (
    <div role="status" className="grid min-h-[50dvh] animate-late place-items-center">
      <Spinner className="size-7 text-primary" />
      <span className="sr-only">{label}</span>
    </div>
  );
}
