import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { Dialog, DialogContent } from "@/components/ui/dialog";
import { DialogBody } from "@/components/ui/dialog-panel";
import { Input } from "@/components/ui/input";
import { useAuth } from "@/features/auth/auth-context";
import { planListQuery } from "@/features/plans/queries";
import { useDebounced } from "@/hooks/use-debounced";
import { cn } from "@/lib/cn";
import { messageOf } from "@/lib/errors";
import { foundQuery, type Hit, matching, minLetters, pageHits, planHits } from "./find-query";

interface PaletteProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

/** Leads to a plan, priority, task, person or page by a part of its name. */
export function CommandPalette({ open, onOpenChange }: PaletteProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent title="Find" description="Plans, priorities, tasks, people and pages" className="sm:max-w-xl">
        <DialogBody>
          <Finder onChosen={() => onOpenChange(false)} />
        </DialogBody>
      </DialogContent>
    </Dialog>
  );
}

function Finder({ onChosen }: { onChosen: () => void }) {
  const { isAdmin } = useAuth();
  const navigate = useNavigate();
  const id = useId();
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const plans = useQuery(planListQuery());
  const wanted = useDebounced(text.trim(), 200);
  const found = useQuery({
    ...foundQuery(wanted),
    enabled: wanted.length >= minLetters,
    placeholderData: keepPreviousData,
  });

  const titles = new Map((plans.data ?? []).map((plan) => [plan.id, plan.title]));
  const current = text.trim().length >= minLetters ? (found.data ?? []) : [];
  const hits = [
    ...matching(planHits(plans.data ?? []), text),
    // What an earlier, shorter text found is shown until the answer comes, as far as it fits.
    ...matching(current, text).map((hit) => ({ ...hit, hint: titles.get(hit.planId ?? "") ?? hit.hint })),
    ...matching(pageHits(isAdmin), text),
  ];
  const chosen = Math.min(active, hits.length - 1);
  const isSearching = text.trim().length >= minLetters && (found.isFetching || wanted !== text.trim());

  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  });

  function choose(hit: Hit | undefined) {
    if (!hit) return;
    onChosen();
    void navigate(hit.path);
  }

  function handleKeys(event: KeyboardEvent) {
    if (event.nativeEvent.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && hits.length > 0) setActive((chosen + step + hits.length) % hits.length);
    else if (event.key === "Enter") choose(hits[chosen]);
    else return;
    event.preventDefault();
  }

  return (
    <div className="grid gap-3">
      <Input
        role="combobox"
        aria-label="Find"
        aria-expanded={hits.length > 0}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={hits[chosen] ? `${id}-${hits[chosen].key}` : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder="Type a part of a name..."
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setActive(0);
        }}
        onKeyDown={handleKeys}
      />
      <div ref={list} id={`${id}-list`} role="listbox" aria-label="Found" className="grid gap-0.5">
        {hits.map((hit, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
          <div
            key={hit.key}
            id={`${id}-${hit.key}`}
            role="option"
            aria-selected={index === chosen}
            tabIndex={-1}
            className={cn(
              "flex min-h-11 cursor-pointer items-center justify-between gap-3 rounded-md px-3 py-1.5 text-sm md:min-h-9",
              index === chosen && "bg-primary-soft text-primary-soft-foreground",
            )}
            onPointerMove={() => setActive(index)}
            onClick={() => choose(hit)}
          >
            <span dir="auto" className="line-clamp-2 [overflow-wrap:anywhere]">
              {hit.label}
            </span>
            <span
              className={cn(
                "max-w-[45%] shrink-0 truncate text-xs",
                index === chosen ? "text-primary-soft-foreground" : "text-muted-foreground",
              )}
            >
              {hit.hint ? `${hit.kind} in ${hit.hint}` : hit.kind}
            </span>
          </div>
        ))}
      </div>
      <p role="status" className="text-muted-foreground text-sm empty:hidden">
        {found.isError && current.length === 0 && text.trim().length >= minLetters
          ? messageOf(found.error)
          : hits.length === 0 && (isSearching ? "Searching..." : "Nothing has this in its name.")}
      </p>
    </div>
  );
}
