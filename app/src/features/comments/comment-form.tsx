import { type KeyboardEvent, useId, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { PersonFace } from "@/components/person-face";
import { SubmitButton } from "@/components/submit-button";
import { Textarea } from "@/components/ui/input";
import { cn } from "@/lib/cn";
import type { Person } from "@/lib/people";
import { randomUuid } from "@/lib/random-uuid";
import { mentionBefore, mentionedIn, suggestionsFor } from "./mentions";

const longest = 5000;
const mostMentions = 20;

interface CommentFormProps {
  /** Who can be mentioned. */
  people: Person[];
  busy: boolean;
  onTyped: (typed: boolean) => void;
  /** Whether it was written. */
  onSend: (comment: { id: string; body: string; mentions: string[] }) => Promise<boolean>;
}

/** A comment being written; `@` offers the plan's people. */
export function CommentForm({ people, busy, onTyped, onSend }: CommentFormProps) {
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  // The same id until it was written, so that a repeat after a lost answer is the same comment.
  const [commentId, setCommentId] = useState(randomUuid);
  const [text, setText] = useState("");
  const [caret, setCaret] = useState(0);
  const [active, setActive] = useState(0);
  const [closed, setClosed] = useState(false);

  const mention = closed ? null : mentionBefore(text, caret);
  const offered = mention ? suggestionsFor(mention.typed, people) : [];
  const chosen = offered[Math.min(active, offered.length - 1)];
  const mentions = mentionedIn(text, people);
  const fault =
    text.length > longest
      ? "This comment is too long"
      : mentions.length > mostMentions
        ? `A comment can mention ${mostMentions} people`
        : null;

  function change(next: string, position: number) {
    setText(next);
    setCaret(position);
    setActive(0);
    setClosed(false);
    onTyped(next.trim() !== "");
  }

  function choose(person: Person) {
    if (!mention) return;
    const before = `${text.slice(0, mention.start)}@${person.name} `;
    // At once: a key pressed before the caret is placed would land in front of the rest.
    flushSync(() => change(before + text.slice(caret).replace(/^ /, ""), before.length));
    field.current?.focus();
    field.current?.setSelectionRange(before.length, before.length);
  }

  async function send() {
    if (text.trim() === "" || fault || busy) return;
    if (await onSend({ id: commentId, body: text.trim(), mentions })) {
      setCommentId(randomUuid());
      change("", 0);
      field.current?.focus();
    }
  }

  function handleKeys(event: KeyboardEvent) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void send();
      return;
    }
    if (!chosen || event.nativeEvent.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setActive((Math.min(active, offered.length - 1) + step + offered.length) % offered.length);
    else if (event.key === "Enter" || event.key === "Tab") choose(chosen);
    else if (event.key === "Escape") {
      setClosed(true);
      // The dialog closes by the next one.
      event.stopPropagation();
    } else return;
    event.preventDefault();
  }

  return (
    <form
      className="grid gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label htmlFor={id} className="font-medium text-sm">
        Add a comment
      </label>
      <div className="relative">
        <Textarea
          ref={field}
          id={id}
          dir="auto"
          value={text}
          rows={3}
          disabled={busy}
          placeholder="Type @ to mention someone: they get a mail"
          aria-autocomplete="list"
          aria-controls={chosen ? `${id}-people` : undefined}
          aria-activedescendant={chosen ? `${id}-${chosen.id}` : undefined}
          aria-invalid={fault ? true : undefined}
          aria-describedby={fault ? `${id}-fault` : undefined}
          onChange={({ target }) => change(target.value, target.selectionStart)}
          onSelect={({ currentTarget }) => setCaret(currentTarget.selectionStart)}
          onKeyDown={handleKeys}
        />
        {chosen && (
          <div
            id={`${id}-people`}
            role="listbox"
            aria-label="People to mention"
            className="absolute inset-x-0 bottom-full z-10 mb-1 max-h-56 overflow-y-auto rounded-md border bg-surface-raised p-1 shadow-overlay"
          >
            {offered.map((person) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are the field's, which keeps the focus
              <div
                key={person.id}
                id={`${id}-${person.id}`}
                role="option"
                tabIndex={-1}
                aria-selected={person === chosen}
                className={cn(
                  "flex min-h-11 cursor-pointer items-center gap-2.5 rounded px-2.5 py-1.5 text-sm",
                  person === chosen && "bg-muted",
                )}
                onMouseDown={(event) => event.preventDefault()}
                onClick={() => choose(person)}
              >
                <PersonFace person={person} className="size-7 text-xs" />
                <span className="grid min-w-0">
                  <span className="truncate font-medium">{person.name}</span>
                  {person.email && <span className="truncate text-muted-foreground text-xs">{person.email}</span>}
                </span>
              </div>
            ))}
          </div>
        )}
      </div>
      <p aria-live="polite" className="sr-only">
        {offered.length > 0 && `${offered.length} people to mention. Press Enter to choose ${chosen?.name}.`}
      </p>
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p id={`${id}-fault`} className={cn("text-xs", fault ? "text-destructive" : "text-muted-foreground")}>
          {fault ??
            (mentions.length > 0
              ? mentions.length === 1
                ? "1 person gets a mail"
                : `${mentions.length} people get a mail`
              : "")}
        </p>
        <SubmitButton busy={busy} busyLabel="Sending..." disabled={busy || text.trim() === "" || fault !== null}>
          Comment
        </SubmitButton>
      </div>
    </form>
  );
}
