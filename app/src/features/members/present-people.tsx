import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { PersonFace } from "@/components/person-face";
import { useLive } from "@/hooks/use-live";
import { type Person, peopleKey, peopleQuery } from "@/lib/people";
import { memberKeys, memberListQuery } from "./queries";

interface PresentPeopleProps {
  planId: string;
  userId: string;
  /** User ids of those who have the plan open. */
  present: string[];
}

const mostShown = 4;

/** Small faces of the colleagues who look at the plan at this moment. */
export function PresentPeople({ planId, userId, present }: PresentPeopleProps) {
  const live = useLive();
  const others = present.filter((id) => id !== userId);
  const everyone = useQuery({ ...peopleQuery(planId), enabled: others.length > 0 });
  const people = others.flatMap((id) => everyone.data?.get(id) ?? []).filter(({ isMember }) => isMember);

  // The lists do not show a newcomer yet, or only the invitation.
  const queryClient = useQueryClient();
  const members = useQuery({ ...memberListQuery(planId), enabled: others.length > 0 });
  const newcomer = others.find((id) => members.data && !members.data.some(({ user_id }) => user_id === id));
  useEffect(() => {
    if (!newcomer) return;
    void queryClient.invalidateQueries({ queryKey: memberKeys.list(planId) });
    void queryClient.invalidateQueries({ queryKey: peopleKey(planId) });
  }, [newcomer, planId, queryClient]);

  if (!live || people.length === 0) return null;
  const shown = people.slice(0, people.length > mostShown ? mostShown - 1 : mostShown);
  const rest = people.slice(shown.length);
  return (
    <ul aria-label="Here now" className="flex shrink-0 -space-x-1.5">
      {shown.map((person) => (
        <li key={person.id} title={`${person.name} is here`} className="relative">
          <PersonFace person={person} className="size-7 text-xs ring-2 ring-background" />
          <span className="sr-only">{inWords(person)}</span>
        </li>
      ))}
      {rest.length > 0 && (
        <li title={rest.map(({ name }) => name).join(", ")} className="relative">
          <span
            aria-hidden
            className="grid size-7 place-items-center rounded-full bg-muted font-semibold text-muted-foreground text-xs ring-2 ring-background"
          >
            +{rest.length}
          </span>
          <span className="sr-only">{rest.map(inWords).join("; ")}</span>
        </li>
      )}
    </ul>
  );
}

const inWords = ({ name, email }: Person) => (email ? `${name}, ${email}` : name);
