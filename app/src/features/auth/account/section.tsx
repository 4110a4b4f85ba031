import { type ReactNode, useId } from "react";
import { Card } from "@/components/ui/card";

interface SectionProps {
  title: string;
  description?: ReactNode;
  children: ReactNode;
}

/** A part of the account page: what it is about at the left where there is room, its controls in a card. */
export function Section({ title, description, children }: SectionProps) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="grid gap-x-10 gap-y-4 border-t py-8 lg:grid-cols-[18rem_minmax(0,1fr)]">
      <div>
        <h2 id={id} className="text-heading">
          {title}
        </h2>
        {description && <p className="mt-1.5 text-pretty text-muted-foreground text-sm">{description}</p>}
      </div>
      <Card className="min-w-0 p-4 sm:p-6">{children}</Card>
    </section>
  );
}
