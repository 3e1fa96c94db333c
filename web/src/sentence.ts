// The sentence that says what was opened. Each part leads to the place that explains it.
import type { LintDocument } from 'tftf';
import type { Summary } from './engine/messages';
import { bytesText, countText, nameText, parametersText, plural } from './format';
import type { PlaceName } from './route';

export interface SentencePart {
  text: string;
  place?: PlaceName;
  detail?: string;
  tone?: 'error' | 'warning' | 'good';
}

const families: Record<string, string> = {
  bloom: 'BLOOM', deepseek_v2: 'DeepSeek-V2', deepseek_v3: 'DeepSeek-V3', falcon: 'Falcon', gemma: 'Gemma', gemma2: 'Gemma 2', gemma3: 'Gemma 3',
  gpt2: 'GPT-2', gpt_neox: 'GPT-NeoX', gpt_oss: 'gpt-oss', gptj: 'GPT-J', llama: 'Llama', llama4: 'Llama 4', mistral: 'Mistral', mixtral: 'Mixtral',
  opt: 'OPT', phi3: 'Phi-3', qwen2: 'Qwen2', qwen2_vl: 'Qwen2-VL', qwen3: 'Qwen3', qwen3_moe: 'Qwen3 MoE', t5: 'T5',
};
export const familyText = (family: string): string => families[family] ?? nameText(family, 80);

const dtypeWords: Record<string, string> = { F8_E4M3: 'FP8', F8_E5M2: 'FP8 (E5M2)', F4: 'FP4', F16: 'FP16', F32: 'FP32', F64: 'FP64' };
const layoutWords: [RegExp, string][] = [
  [/^fp8/, 'FP8'], [/^colibri-/, 'colibri'], [/^ct-/, 'compressed-tensors'], [/^gptq/, 'GPTQ'], [/^awq/, 'AWQ'], [/^bnb/, 'bitsandbytes'],
  [/^mlx/, 'MLX'], [/nvfp4/, 'NVFP4'], [/^mxfp4/, 'MXFP4'],
];
export const layoutText = (id: string): string => layoutWords.find(([pattern]) => pattern.test(id))?.[1] ?? id;

// "FP8 (128 × 128 blocks)", else the dtype with most bytes.
function precision(summary: Summary): string {
  const layout = [...summary.layouts].sort((a, b) => Number(b.bytes) - Number(a.bytes))[0];
  if (layout && Number(layout.bytes) * 4 > summary.dataBytes) {
    const blocks = /blocks of (\d+) x (\d+)/.exec(layout.evidence);
    return layoutText(layout.id) + (blocks ? ` (${blocks[1]} × ${blocks[2]} blocks)` : '');
  }
  const most = [...summary.dtypes].sort((a, b) => Number(b.bytes) - Number(a.bytes))[0];
  if (!most) return '';
  return Number(most.bytes) * 2 < summary.dataBytes ? 'mixed dtypes' : (dtypeWords[most.dtype] ?? most.dtype);
}

const numbers = (counts: unknown): string => {
  const keys = typeof counts === 'object' && counts !== null ? Object.keys(counts) : [];
  return keys.length === 0 ? '' : keys.length <= 3 ? keys.join(', ') : `${keys[0]} to ${keys[keys.length - 1]}`;
};

function adapterParts(summary: Summary): SentencePart[] {
  const adapter = summary.adapter as Record<string, unknown>;
  const form = Object.keys((adapter.forms as object | null) ?? {})[0] ?? String(adapter.form ?? '');
  const formText = form === 'lora' ? 'LoRA' : form === 'dora' ? 'DoRA' : form;
  const family = String(adapter.family ?? '');
  const ranks = numbers(adapter.ranks);
  const alphas = numbers(adapter.alphas);
  const base = adapter.base_family;
  const parts: SentencePart[] = [
    { text: [family === 'peft' ? 'PEFT' : nameText(family, 40), formText].filter(Boolean).join(' ') || 'Adapter', place: 'overview' },
  ];
  if (typeof base === 'string') parts.push({ text: ` for a ${familyText(base)} model` });
  parts.push({ text: ': ' });
  if (ranks) parts.push({ text: `rank ${ranks}` }, { text: ', ' });
  if (alphas) parts.push({ text: `alpha ${alphas}` }, { text: ', ' });
  parts.push({ text: plural(Number(adapter.modules ?? 0), 'module'), place: 'tensors' }, { text: ', ' }, { text: bytesText(summary.dataBytes), place: 'overview' });
  return parts;
}

function fileParts(summary: Summary): SentencePart[] {
  const files = summary.files.length;
  const parts: SentencePart[] = [];
  if (files > 1) parts.push({ text: ', ' }, { text: plural(files, 'shard'), place: 'overview', detail: '' });
  const missing = summary.files.filter((file) => file.status === 'missing').length;
  const broken = summary.files.filter((file) => file.status === 'broken').length;
  const pointers = summary.files.filter((file) => file.status === 'pointer').length;
  const bad = [missing && `${countText(missing)} missing`, broken && files > 1 && `${countText(broken)} broken`, pointers && `${countText(pointers)} Git LFS pointers`].filter(Boolean).join(', ');
  if (bad) parts.push({ text: ` (${bad})`, place: 'check', tone: 'error' });
  return parts;
}

// How large the real files behind pointers are, once the check has told.
function realSize(document: LintDocument | null): string {
  const sizes = (document?.issues.messages ?? []).filter(({ rule }) => rule === 'ST003').map(({ values }) => Number(values.lfs_size));
  if (sizes.length === 0 || sizes.some(Number.isNaN)) return '';
  const sum = bytesText(sizes.reduce((total, size) => total + size, 0));
  return sizes.length === 1 ? `; the real file is ${sum}` : `; the real files are ${sum} together`;
}

// What it is, without its end.
export function sentenceParts(summary: Summary, document: LintDocument | null): SentencePart[] {
  const family = summary.family ? `${familyText(summary.family)} ` : '';
  switch (summary.kind) {
    case 'pointer': {
      const pointers = summary.files.filter(({ status }) => status === 'pointer');
      const bytes = pointers.reduce((sum, { size }) => sum + Number(size ?? 0), 0);
      return [
        { text: pointers.length > 1 ? `These are ${countText(pointers.length)} Git LFS pointers` : 'This is a Git LFS pointer', tone: 'error', place: 'check' },
        { text: `, ${bytesText(bytes)} of text instead of the weights${realSize(document)}. Run git lfs pull in ${pointers.length > 1 ? 'their' : 'its'} folder, or download ${pointers.length > 1 ? 'the files themselves' : 'the file itself'}` },
      ];
    }
    case 'config':
      return [{ text: `${family}configuration`, place: 'metadata' }, { text: ' without any weights' }];
    case 'index':
      if (summary.files.length === 0) return [{ text: 'An index that names no shard', tone: 'error', place: 'check' }];
      return [
        { text: `An index of ${plural(summary.files.length, 'shard')}`, place: 'metadata' },
        { text: summary.files.length === 1 ? ' that is not here' : ' that are not here', tone: 'error', place: 'check' },
        { text: '. Drop the whole folder to see the model' },
      ];
    case 'broken': {
      const parts: SentencePart[] = [{ text: summary.tensorCount > 0 ? 'Damaged weight file' : 'Not a sound weight file', tone: 'error', place: 'check' }];
      if (summary.tensorCount > 0) parts.push({ text: ': ' }, { text: plural(summary.tensorCount, 'tensor'), place: 'tensors' });
      return [...parts, ...fileParts(summary), { text: ', ' }, { text: bytesText(summary.files.reduce((sum, file) => sum + Number(file.size ?? 0), 0)), place: 'overview' }];
    }
    case 'adapter':
      if (summary.adapter) return [...adapterParts(summary), ...fileParts(summary)];
      break;
    case 'checkpoint':
    case 'embedding':
    case 'data':
      break;
  }
  const noun = summary.kind === 'data' ? 'safetensors file' : summary.kind;
  const parts: SentencePart[] = [{ text: `${family}${family ? noun : noun.charAt(0).toUpperCase() + noun.slice(1)}`, place: 'overview' }, { text: ': ' }];
  if (summary.logicalParameters !== null) {
    parts.push({ text: `${parametersText(summary.logicalParameters)} ${summary.kind === 'data' ? 'values' : 'parameters'}`, place: 'tensors' });
  } else {
    parts.push({ text: plural(summary.tensorCount, 'tensor'), place: 'tensors' });
  }
  const words = precision(summary);
  if (words) parts.push({ text: ' in ' }, { text: words, place: 'overview' });
  return [...parts, ...fileParts(summary), { text: ', ' }, { text: bytesText(summary.dataBytes), place: 'overview' }];
}

// What the check found, as the second sentence.
export function findingsParts(document: LintDocument): SentencePart[] {
  const errors = Number(document.issues.numErrors);
  const warnings = Number(document.issues.numWarnings);
  if (errors + warnings === 0) return [{ text: 'No errors, no warnings', place: 'check', tone: 'good' }];
  const parts: SentencePart[] = [];
  if (errors > 0) parts.push({ text: plural(errors, 'error'), place: 'check', tone: 'error' });
  if (warnings > 0) {
    if (parts.length > 0) parts.push({ text: ', ' });
    parts.push({ text: plural(warnings, 'warning'), place: 'check', tone: 'warning' });
  }
  return parts;
}
