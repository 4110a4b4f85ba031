import { type ChangeEvent, type KeyboardEvent, type Ref, useId, useState } from "react";
import { PersonFace } from "@/components/person-face";
import { Input } from "@/components/ui/input";
import { cn } from "@/lib/cn";
import type { Person } from "@/lib/people";
import { lastName, toNames } from "./names";

interface NamesInputProps {
  people: Person[];
  value: string;
  onChange: (value: string) => void;
  onBlur: () => void;
  name: string;
  ref: Ref<HTMLInputElement>;
  disabled?: boolean | undefined;
  placeholder: string;
  id?: string;
  "aria-invalid"?: boolean;
  "aria-describedby"?: string | undefined;
}

const most = 6;

/** Names, separated by commas: members are offered, other names are as good. */
export function NamesInput({ people, value, onChange, onBlur, ...props }: NamesInputProps) {
  const listId = useId();
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const { before, typed } = lastName(value);
  const taken = new Set(toNames(before).map((name) => name.toLocaleLowerCase()));
  const offered = open ? suggestions(people, typed, taken) : [];
  const chosen = offered[active];

  function change(next: string) {
    onChange(next);
    setActive(-1);
    setOpen(true);
  }
  function choose({ name }: Person) {
    // A comma in a name would make two of it.
    change(`${before}${before === "" ? "" : " "}${name.replaceAll(",", " ")}, `);
  }
  function handleKeys(event: KeyboardEvent) {
    if (offered.length === 0 || event.nativeEvent.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setActive((Math.max(active, step > 0 ? -1 : 0) + step + offered.length) % offered.length);
    else if (event.key === "Enter" && chosen) choose(chosen);
    else if (event.key === "Escape") {
      setOpen(false);
      // The dialog closes by the next one.
      event.stopPropagation();
    } else return;
    event.preventDefault();
  }

  return (
    <div className="relative">
      <Input
        autoComplete="off"
        role="combobox"
        aria-autocomplete="list"
        aria-expanded={offered.length > 0}
        aria-controls={offered.length > 0 ? listId : undefined}
        aria-activedescendant={chosen && `${listId}-${chosen.id}`}
        value={value}
        onChange={({ target }: ChangeEvent<HTMLInputElement>) => change(target.value)}
        onFocus={() => setOpen(true)}
        onBlur={() => {
          setOpen(false);
          onBlur();
        }}
        onKeyDown={handleKeys}
        {...props}
      />
      {offered.length > 0 && (
        <div
          id={listId}
          role="listbox"
          aria-label="Members"
          className="absolute inset-x-0 bottom-full z-10 mb-1 max-h-56 overflow-y-auto rounded-md border bg-surface-raised p-1 shadow-overlay"
        >
          {offered.map((person) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are the field's, which keeps the focus
            <div
              key={person.id}
              id={`${listId}-${person.id}`}
              role="option"
              tabIndex={-1}
              aria-selected={person === chosen}
              className={cn(
                "flex min-h-11 cursor-pointer items-center gap-2.5 rounded px-2.5 py-1.5 text-sm hover:bg-muted md:min-h-9",
                person === chosen && "bg-muted",
              )}
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => choose(person)}
            >
              <PersonFace person={person} className="size-7 text-xs" />
              <span className="truncate">{person.name}</span>
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

/** Members who are not in the list yet, by any part of their name. */
function suggestions(people: Person[], typed: string, taken: Set<string>) {
  const wanted = typed.toLocaleLowerCase();
  return people
    .filter(({ name }) => {
      const lower = name.toLocaleLowerCase();
      if (taken.has(lower) || lower === wanted) return false;
      return lower.startsWith(wanted) || lower.split(/\s+/u).some((part) => part.startsWith(wanted));
    })
    .slice(0, most);
}
