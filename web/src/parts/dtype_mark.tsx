import { dtypeColour } from '../dtype_palette';

export function DtypeMark({ dtype }: { dtype: string }) {
  return (
    <span class="dtype">
      <i style={{ backgroundColor: dtypeColour(dtype) }} aria-hidden="true" />
      {dtype}
    </span>
  );
}
