import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Avatar } from "@/components/ui/avatar";
import { useLive } from "@/hooks/use-live";
import { memberListQuery } from "./queries";

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
  const members = useQuery({ ...memberListQuery(planId), enabled: others.length > 0 });
  const people = (members.data ?? []).filter(({ user_id: id }) => id !== null && others.includes(id));

  // Somebody who has just joined the team: the list is older than they are.
  const { refetch } = members;
  const newcomer = others.find((id) => members.data && !members.data.some(({ user_id }) => user_id === id));
  useEffect(() => {
    if (newcomer) void refetch();
  }, [newcomer, refetch]);

  if (!live || people.length === 0) return null;
  const shown = people.slice(0, people.length > mostShown ? mostShown - 1 : mostShown);
  const rest = people.slice(shown.length);
  return (
    <ul aria-label="Here now" className="flex shrink-0 -space-x-1.5">
      {shown.map(({ id, email }) => (
        <li key={id} title={`${email ?? "A member"} is here`} className="relative">
          <Avatar initial={(email ?? "?").charAt(0).toUpperCase()} className="size-7 text-xs ring-2 ring-background" />
          <span className="sr-only">{email ?? "A member without an address"}</span>
        </li>
      ))}
      {rest.length > 0 && (
        <li title={rest.map(({ email }) => email ?? "A member").join(", ")} className="relative">
          <span
            aria-hidden
            className="grid size-7 place-items-center rounded-full bg-muted font-semibold text-muted-foreground text-xs ring-2 ring-background"
          >
            +{rest.length}
          </span>
          <span className="sr-only">{rest.map(({ email }) => email ?? "a member without an address").join(", ")}</span>
        </li>
      )}
    </ul>
  );
}
