import type { ReactNode } from "react";
import { Alert } from "@/components/ui/alert";
import { Button } from "@/components/ui/button";

interface ConflictNoteProps {
  /** What was changed, a task say. */
  thing: string;
  /** Their version. Fields without a value are left out. */
  rows: { name: string; value: ReactNode }[];
  onKeepMine: () => void;
  onLoadTheirs: () => void;
}

/** A colleague saved the same thing while this person was typing: both versions, and a choice. */
export function ConflictNote({ thing, rows, onKeepMine, onLoadTheirs }: ConflictNoteProps) {
  return (
    <Alert
      data-conflict
      tabIndex={-1}
      role="alert"
      tone="warning"
      title={`Someone else changed this ${thing} while you were editing`}
      action={
        <>
          <Button variant="secondary" size="small" onClick={onKeepMine}>
            Keep my version
          </Button>
          <Button variant="secondary" size="small" onClick={onLoadTheirs}>
            Use their version
          </Button>
        </>
      }
    >
      <p>Nothing you typed is lost. Their version:</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reached by the keyboard */}
      <section aria-label="Their version" tabIndex={0} className="max-h-48 overflow-y-auto rounded-md">
        <dl className="grid gap-2 bg-surface-raised p-3">
          {rows
            .filter(({ value }) => value)
            .map(({ name, value }) => (
              <div key={name}>
                <dt className="text-muted-foreground text-xs">{name}</dt>
                <dd className="whitespace-pre-line">{value}</dd>
              </div>
            ))}
        </dl>
      </section>
    </Alert>
  );
}
