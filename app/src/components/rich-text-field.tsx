import { type Control, type FieldPath, type FieldValues, useController } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { RichTextEditor } from "@/components/rich-text-editor";

interface RichTextFieldProps<Values extends FieldValues> {
  control: Control<Values>;
  name: FieldPath<Values>;
  label: string;
  placeholder: string;
  disabled: boolean;
}

/** An editor as a field of a form. */
export function RichTextField<Values extends FieldValues>({
  control,
  name,
  label,
  placeholder,
  disabled,
}: RichTextFieldProps<Values>) {
  const { field, fieldState } = useController({ control, name });
  return (
    <FormField label={label} error={fieldState.error?.message}>
      <RichTextEditor
        value={field.value}
        onChange={field.onChange}
        onBlur={field.onBlur}
        disabled={disabled}
        placeholder={placeholder}
      />
    </FormField>
  );
}
