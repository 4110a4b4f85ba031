import { PencilIcon } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useCallback, useId, useRef, useState } from "react";
import { cn } from "@/lib/cn";

interface InlineEditProps {
  /** What the button does and the field is, "Rename Find a hall" say. */
  label: string;
  /** As it is now: a colleague may change it meanwhile. */
  value: string;
  /** Why a text will not do; null when it will. */
  faultOf: (text: string) => string | null;
  /** Whether it was saved over `seen`. Rejects when that failed, having told the person. */
  save: (text: string, seen: string) => Promise<boolean>;
  /** The text, as it is shown while it is not edited; a heading as an inline one. */
  children: ReactNode;
  /** The text's looks, for the field. */
  className?: string;
}

/** A text that is changed where it stands: Enter and leaving it save, Escape leaves it as it was. */
export function InlineEdit({ label, value, children, className, ...props }: InlineEditProps) {
  const [editing, setEditing] = useState(false);
  const focusesButton = useRef(false);
  const attachButton = useCallback((button: HTMLButtonElement | null) => {
    if (focusesButton.current) button?.focus();
    focusesButton.current = false;
  }, []);

  function close(byKey: boolean) {
    focusesButton.current = byKey;
    setEditing(false);
  }

  return (
    <div className="group/edit min-w-0">
      {/* Stays, if only to be heard: a heading is one of the page, and names what stands below it. */}
      <div className={editing ? "sr-only" : "inline"}>{children}</div>
      {editing ? (
        <Field label={label} value={value} onClose={close} className={className} {...props} />
      ) : (
        <button
          ref={attachButton}
          type="button"
          aria-label={label}
          title="Rename"
          onClick={() => setEditing(true)}
          className="-my-1 ms-1 inline-grid size-6 place-items-center rounded-sm align-middle text-muted-foreground opacity-0 transition-opacity hover:bg-muted hover:text-foreground focus-visible:opacity-100 group-hover/edit:opacity-100 pointer-coarse:opacity-100 print:hidden"
        >
          <PencilIcon className="size-3.5" aria-hidden />
        </button>
      )}
    </div>
  );
}

type FieldProps = Omit<InlineEditProps, "children" | "className"> & {
  onClose: (byKey: boolean) => void;
  className: string | undefined;
};

// At first only: who comes back to the field goes on where they were.
const selectAtFirst = (input: HTMLInputElement | null) => input?.select();

function Field({ label, value, faultOf, save, onClose, className }: FieldProps) {
  const noteId = useId();
  const [text, setText] = useState(value);
  const [base, setBase] = useState(value);
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const over = useRef(false);
  const theirs = value !== base && !busy ? value : null;
  const note =
    fault ??
    (theirs === null
      ? null
      : `Someone else changed this to “${theirs}”. Enter saves your text over theirs, Escape keeps theirs.`);

  function close(byKey: boolean) {
    over.current = true;
    onClose(byKey);
  }

  async function submit(byKey: boolean) {
    if (busy || over.current) return;
    const next = text.trim();
    if (next === value) return close(byKey);
    const wrong = faultOf(next);
    setFault(wrong);
    if (wrong) return;
    setBusy(true);
    // What was shown of theirs was seen.
    const seen = theirs ?? base;
    setBase(seen);
    const saved = await save(next, seen).catch(() => null);
    setBusy(false);
    if (saved) close(byKey);
  }

  function handleKeys(event: KeyboardEvent) {
    event.stopPropagation();
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter") {
      event.preventDefault();
      void submit(true);
    }
    if (event.key === "Escape") close(true);
  }

  return (
    <div className="grid gap-1">
      <input
        // biome-ignore lint/a11y/noAutofocus: the person has just asked for it
        autoFocus
        dir="auto"
        aria-label={label}
        aria-invalid={fault !== null}
        aria-describedby={note ? noteId : undefined}
        readOnly={busy}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setFault(null);
        }}
        ref={selectAtFirst}
        onKeyDown={handleKeys}
        // Their text is only written over by a key: leaving the field may be an accident.
        onBlur={() => theirs === null && void submit(false)}
        className={cn(
          "-mx-1.5 -my-0.5 w-full min-w-0 rounded-sm border border-input bg-background px-1.5 py-0.5 text-foreground",
          className,
        )}
      />
      {note && (
        <p id={noteId} role="alert" className={cn("text-xs", fault ? "text-destructive" : "text-warning")}>
          {note}
        </p>
      )}
    </div>
  );
}
