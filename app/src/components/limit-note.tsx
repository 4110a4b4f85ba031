import { Link } from "react-router";
import { Progress } from "@/components/ui/progress";

interface LimitNoteProps {
  /** "2 of 3 people" */
  text: string;
  used: number;
  of: number;
  /** The subscription. */
  name: string;
  isMine: boolean;
  /** What more of it would bring: "more people". */
  more: string;
}

/** How much of what the subscription includes is used, before it is reached, and the way to more. */
export function LimitNote({ text, used, of, name, isMine, more }: LimitNoteProps) {
  const percent = Math.min(100, Math.round((used / Math.max(of, 1)) * 100));
  return (
    <div className="mb-4 grid gap-2 rounded-lg border bg-surface px-4 py-3 text-sm">
      <p className="flex flex-wrap items-baseline justify-between gap-x-4 gap-y-1">
        <span className="font-medium tabular-nums">{text}</span>
        <span className="text-muted-foreground">
          {isMine ? (
            <>
              Included in {name}.{" "}
              <Link to="/dashboard/subscription" className="text-primary underline underline-offset-2">
                Upgrade for {more}
              </Link>
            </>
          ) : (
            <>
              Included in the owner's subscription ({name}). An owner can upgrade it for {more}.
            </>
          )}
        </span>
      </p>
      <Progress percent={percent} label={text} />
    </div>
  );
}
