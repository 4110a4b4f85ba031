import { zodResolver } from "@hookform/resolvers/zod";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Controller } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { Loaded } from "@/components/loaded";
import { Preview } from "@/components/preview";
import { StaleAlert } from "@/components/stale-alert";
import { SubmitButton } from "@/components/submit-button";
import { Card } from "@/components/ui/card";
import { Input, Textarea } from "@/components/ui/input";
import { Select } from "@/components/ui/select";
import { Switch } from "@/components/ui/switch";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { useRowForm } from "@/hooks/use-row-form";
import { type ContentRow, sectionQuery, useSaveSection } from "./queries";
import { type ContentValues, contentFormSchema, fieldsOf, type Section, sectionGroups, sections } from "./schema";

/** What a preview shows: the form as it stands. */
export type DraftContent = {
  [Key in keyof ContentValues]: ContentValues[Key] extends boolean ? boolean : string | null;
};

interface PageContentProps {
  /** The section of the public page, with these words. */
  renderPreview: (section: Section, content: DraftContent) => ReactNode;
}

export function PageContent({ renderPreview }: PageContentProps) {
  const [section, setSection] = useState<Section>("hero");
  const [isDirty, setDirty] = useState(false);
  // Where the person wants to go, while they are asked about what they typed.
  const [asked, setAsked] = useState<Section | null>(null);
  const content = useQuery(sectionQuery(section));

  function choose(next: Section) {
    if (isDirty) setAsked(next);
    else setSection(next);
  }

  return (
    <Card className="p-5 sm:p-6">
      <h2 className="text-heading">Page Content</h2>
      <p className="mt-1 text-muted-foreground text-sm">
        What a field leaves empty, the app says in its own words. Visitors see a change within a second.
      </p>
      <FormField label="Section" className="mt-6 max-w-sm">
        <Select
          value={section}
          onChange={({ target }) => {
            const next = sections.find((name) => name === target.value);
            if (next) choose(next);
          }}
        >
          {sectionGroups.map(({ label, sections: parts }) => (
            <optgroup key={label} label={label}>
              {parts.map(({ value, label: name }) => (
                <option key={value} value={value}>
                  {name}
                </option>
              ))}
            </optgroup>
          ))}
        </Select>
      </FormField>
      <div className="mt-6 border-t pt-6">
        <Loaded query={content} loading="Loading marketing content..." failed="Failed to load marketing content.">
          {(row) => (
            <ContentForm
              key={section}
              section={section}
              row={row}
              renderPreview={renderPreview}
              onDirtyChange={setDirty}
            />
          )}
        </Loaded>
      </div>
      <UnsavedGuard
        when={isDirty}
        asking={asked !== null}
        onKeep={() => setAsked(null)}
        onDiscard={() => {
          if (asked) setSection(asked);
          setAsked(null);
          setDirty(false);
        }}
      />
    </Card>
  );
}

interface ContentFormProps extends PageContentProps {
  section: Section;
  row: ContentRow | null;
  onDirtyChange: (dirty: boolean) => void;
}

function ContentForm({ section, row, renderPreview, onDirtyChange }: ContentFormProps) {
  const save = useSaveSection(section);
  const { conflict, control, formState, register, setError, submit, watch } = useRowForm({
    row,
    resolver: zodResolver(contentFormSchema),
    inputOf: valuesOf,
    save: async (change: { base: ContentRow | null; values: ContentValues }) => {
      const { imageurl } = change.values;
      // One that was there before may be saved along with other changes.
      const images = imageurl && imageurl !== change.base?.imageurl ? await import("@/lib/image-loads") : null;
      if (images && !(await images.imageLoads(imageurl))) {
        const { deadImage } = images;
        setError("imageurl", { type: "server", message: deadImage }, { shouldFocus: true });
        throw new Error(deadImage);
      }
      return save.mutateAsync(change);
    },
  });
  const { errors, isDirty, isSubmitting } = formState;
  useEffect(() => {
    onDirtyChange(isDirty && !isSubmitting);
  }, [onDirtyChange, isDirty, isSubmitting]);
  const values = watch();
  const shown = fieldsOf[section];

  return (
    <div className="grid gap-8 lg:grid-cols-2">
      <form noValidate onSubmit={(event) => void submit(event)}>
        <fieldset disabled={isSubmitting} className="grid min-w-0 gap-5">
          {conflict && <StaleAlert {...conflict} />}
          <FormField label="Title" error={errors.title?.message} limit={{ used: values.title.length, of: 500 }}>
            <Input {...register("title")} />
          </FormField>
          {shown.includes("subtitle") && (
            <FormField
              label="Subtitle"
              error={errors.subtitle?.message}
              limit={{ used: values.subtitle.length, of: 1000 }}
            >
              <Input {...register("subtitle")} />
            </FormField>
          )}
          <FormField
            label="Description"
            error={errors.description?.message}
            limit={{ used: values.description.length, of: 20_000 }}
          >
            <Textarea {...register("description")} />
          </FormField>
          {shown.includes("primarybuttontext") && (
            <FormField label="Primary Button Text" error={errors.primarybuttontext?.message}>
              <Input {...register("primarybuttontext")} />
            </FormField>
          )}
          {shown.includes("secondarybuttontext") && (
            <FormField label="Secondary Button Text" error={errors.secondarybuttontext?.message}>
              <Input {...register("secondarybuttontext")} />
            </FormField>
          )}
          {shown.includes("imageurl") && (
            <FormField label="Image URL" error={errors.imageurl?.message}>
              <Input type="url" dir="ltr" placeholder="https://" {...register("imageurl")} />
            </FormField>
          )}
          {shown.includes("htmlcontent") && (
            <FormField
              label="HTML Content"
              error={errors.htmlcontent?.message}
              hint={
                section === "pricing"
                  ? "Allowed: {{pricingCards}}, {{userID}}, {{userEmail}}. Scripts, styles and forms are left out."
                  : "Scripts, styles and forms are left out."
              }
            >
              <Textarea
                spellCheck={false}
                dir="ltr"
                className="min-h-32 font-mono text-sm"
                {...register("htmlcontent")}
              />
            </FormField>
          )}
          <Controller
            control={control}
            name="visible"
            render={({ field: { value, onChange, onBlur, ref } }) => (
              <FormField label="Visible" layout="inline">
                <Switch ref={ref} checked={value} onCheckedChange={onChange} onBlur={onBlur} />
              </FormField>
            )}
          />
          {shown.includes("hide_for_subscribed") && (
            <Controller
              control={control}
              name="hide_for_subscribed"
              render={({ field: { value, onChange, onBlur, ref } }) => (
                <FormField label="Hide for subscribed users" layout="inline">
                  <Switch ref={ref} checked={value} onCheckedChange={onChange} onBlur={onBlur} />
                </FormField>
              )}
            />
          )}
          <SubmitButton busy={isSubmitting} busyLabel="Saving..." className="justify-self-start">
            Save Changes
          </SubmitButton>
        </fieldset>
      </form>
      <Preview label="Preview" className="max-h-[46rem] lg:sticky lg:top-20">
        {values.visible ? (
          // Half the size of the page itself, which has twice the room.
          <div className="[zoom:0.5]">{renderPreview(section, values)}</div>
        ) : (
          <p className="p-8 text-center text-muted-foreground text-sm">Visitors do not see this section.</p>
        )}
      </Preview>
    </div>
  );
}

function valuesOf(row: ContentRow | null): ContentValues {
  return {
    title: row?.title ?? "",
    subtitle: row?.subtitle ?? "",
    description: row?.description ?? "",
    primarybuttontext: row?.primarybuttontext ?? "",
    secondarybuttontext: row?.secondarybuttontext ?? "",
    imageurl: row?.imageurl ?? "",
    htmlcontent: row?.htmlcontent ?? "",
    visible: row?.visible ?? true,
    hide_for_subscribed: row?.hide_for_subscribed ?? false,
  };
}
