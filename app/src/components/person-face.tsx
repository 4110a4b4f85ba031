import { Avatar } from "@/components/ui/avatar";
import { initialIn, type Person } from "@/lib/people";

interface PersonFaceProps {
  person: Pick<Person, "name" | "picture"> | undefined;
  className?: string;
}

/** The face of someone whose name stands beside it. */
export function PersonFace({ person, className }: PersonFaceProps) {
  return (
    <Avatar
      image={person?.picture}
      initial={person ? initialIn(person.name) : "?"}
      {...(className !== undefined && { className })}
    />
  );
}
