import type { ReactNode } from "react";
import { PageHeading } from "@/components/page-heading";

interface ProsePageProps {
  title: string;
  subtitle: string;
  sections: { heading: string; text: ReactNode }[];
}

/** A page to read: headings and paragraphs in a column. */
export function ProsePage({ title, subtitle, sections }: ProsePageProps) {
  return (
    <article className="mx-auto max-w-2xl px-4 py-12 sm:px-6 sm:py-16">
      <PageHeading title={title} subtitle={subtitle} />
      <div className="grid gap-9">
        {sections.map(({ heading, text }) => (
          <section key={heading}>
            <h2 className="text-heading">{heading}</h2>
            <div className="mt-2 grid gap-3 text-pretty text-muted-foreground leading-relaxed">{text}</div>
          </section>
        ))}
      </div>
    </article>
  );
}
