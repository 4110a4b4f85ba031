import { Trash2Icon } from "lucide-react";
import type { ReactNode } from "react";
import { SubmitButton } from "./submit-button";
import { Button } from "./ui/button";

interface DeletedEntryProps {
  title: string;
  /** What it held, and when it was deleted. */
  children: ReactNode;
  restoring: boolean;
  /** Another one is being restored. */
  disabled: boolean;
  /** `null` if it cannot be restored. */
  onRestore: (() => void) | null;
  onDeleteForGood: () => void;
}

/** A list item of a bin, with what can be done with it. */
export function DeletedEntry({ title, children, restoring, disabled, onRestore, onDeleteForGood }: DeletedEntryProps) {
  return (
    <li className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 py-3">
      <div className="min-w-0 grow basis-64">
        <p dir="auto" className="font-medium [overflow-wrap:anywhere]">
          {title}
        </p>
        {children}
      </div>
      <div className="flex flex-wrap gap-2">
        {onRestore && (
          <SubmitButton
            type="button"
            variant="secondary"
            size="small"
            busy={restoring}
            busyLabel="Restoring..."
            disabled={disabled}
            aria-label={`Restore ${title}`}
            onClick={onRestore}
          >
            Restore
          </SubmitButton>
        )}
        <Button
          variant="ghost"
          size="small"
          className="text-destructive"
          aria-label={`Delete for good: ${title}`}
          onClick={onDeleteForGood}
        >
          <Trash2Icon aria-hidden />
          Delete for good
        </Button>
      </div>
    </li>
  );
}
