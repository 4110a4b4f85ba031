import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { cn } from "@/lib/cn";
import { isRealDay } from "@/lib/dates";
import { taskLimits } from "./limits";
import type { TaskFact } from "./mutations";
import { toNames } from "./names";
import type { Task } from "./queries";

export type SaveFact = (base: Task, fact: TaskFact) => Promise<boolean>;

interface FactEditProps {
  task: Task;
  kind: "due" | "people";
  save: SaveFact;
  /** What is shown while it is not edited; without it, a way to add one. */
  children?: ReactNode;
}

const names = {
  due: { add: "Add due date", edit: "change the due date of" },
  people: { add: "Add person", edit: "change who is responsible for" },
};

/** A due date or the people of a task, changed where they stand: Enter and leaving it save, Escape leaves it as it was. */
export function FactEdit({ task, kind, save, children }: FactEditProps) {
  const [editing, setEditing] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const returns = useRef(false);
  useEffect(() => {
    if (editing || !returns.current) return;
    returns.current = false;
    button.current?.focus();
  }, [editing]);

  if (editing) {
    return (
      <FactField
        task={task}
        kind={kind}
        save={save}
        onClose={(byKey) => {
          returns.current = byKey;
          setEditing(false);
        }}
      />
    );
  }
  return (
    <button
      ref={button}
      type="button"
      onClick={() => setEditing(true)}
      className={cn(
        "relative -mx-1 inline-flex min-h-6 min-w-0 items-center gap-1.5 rounded-sm px-1 text-start hover:bg-muted hover:text-foreground",
        // On phones a press on the task opens it, with all of its fields. Last, so that no gap shows before what is visible.
        !children &&
          "order-last opacity-0 focus-visible:opacity-100 group-focus-within/row:opacity-100 group-hover/row:opacity-100 pointer-coarse:hidden print:hidden",
      )}
    >
      {children || names[kind].add}
      <span className="sr-only">
        {children ? `, ${names[kind].edit}` : " to"} {task.title}
      </span>
    </button>
  );
}

function FactField({ task, kind, save, onClose }: FactEditProps & { onClose: (byKey: boolean) => void }) {
  const noteId = useId();
  const initial = kind === "due" ? (task.due_date ?? "") : task.responsible_party.join(", ");
  const [text, setText] = useState(initial);
  // The version that is replaced; the newest, once the person has read that there is one.
  const [base, setBase] = useState(task);
  const [isStale, setIsStale] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const over = useRef(false);

  function close(byKey: boolean) {
    over.current = true;
    onClose(byKey);
  }

  async function submit(byKey: boolean) {
    if (busy || over.current) return;
    if (text === initial) return close(byKey);
    const wrong = faultOf(kind, text);
    setFault(wrong);
    if (wrong) return;
    setBusy(true);
    const fact = kind === "due" ? { due_date: text || null } : { responsible_party: toNames(text) };
    const saved = await save(base, fact).catch(() => null);
    setBusy(false);
    if (saved) return close(byKey);
    if (saved === false) setIsStale(true);
  }

  useEffect(() => {
    if (isStale) setBase(task);
  }, [isStale, task]);
  const note = fault ?? (isStale ? "Someone else changed this task. Enter saves yours all the same." : null);

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
    <span className="grid min-w-0 gap-1">
      <input
        // biome-ignore lint/a11y/noAutofocus: the person has just asked for it
        autoFocus
        dir="auto"
        type={kind === "due" ? "date" : "text"}
        {...(kind === "due" && { min: "1900-01-01", max: "2199-12-31" })}
        autoComplete="off"
        placeholder={kind === "people" ? "Names, separated by commas" : undefined}
        aria-label={kind === "due" ? `Due date of ${task.title}` : `Responsible for ${task.title}`}
        aria-invalid={note !== null}
        aria-describedby={note ? noteId : undefined}
        readOnly={busy}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setFault(null);
        }}
        onKeyDown={handleKeys}
        onBlur={() => note === null && void submit(false)}
        className="h-8 min-w-0 max-w-full rounded-sm border border-input bg-background px-1.5 text-foreground text-xs max-md:h-11 max-md:text-base"
      />
      {note && (
        <span id={noteId} role="alert" className="text-warning">
          {note}
        </span>
      )}
    </span>
  );
}

function faultOf(kind: "due" | "people", text: string) {
  if (kind === "due") return text === "" || isRealDay(text) ? null : "Please enter a date that exists";
  const list = toNames(text);
  if (list.length > taskLimits.names) return `At most ${taskLimits.names} names`;
  return list.join("").length > taskLimits.namesLength ? "These names are too long" : null;
}
