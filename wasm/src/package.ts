// What the package offers everywhere.
export * from './documents.js';
export { TftfError, type ErrorCode } from './error.js';
export type { Progress, Stage, TaskOptions } from './progress.js';
export type { RangeSource, SourceEntry, SourceTree } from './source.js';
export type { OutputFile, OutputSink, OutputWriter } from './sink.js';
export type { AdapterSource } from './adapter.js';
export type { Checkpoint, InfoTextOptions, OpenOptions, SideFile, TensorTable } from './checkpoint.js';
export type { LintOptions, LintReport, ReportFormat, TextStyle } from './lint.js';
export type {
  HeatMap, HeatMapOptions, Histogram, LogicalTensor, MatrixSize, StoredTensor, TensorReader, TensorStatistics,
} from './tensor.js';
export type { Operation, PlanRequest, RunResult, TransformPlan } from './transform.js';

export { partOf, ranksIn, readAdapter, type AdapterFile } from './adapter-file.js';
export { operations, openCheckpoint } from './opening.js';
export { lint, rules, rulesText } from './linting.js';
export {
  compare, statistics, tensorHeatMap,
  type ComparisonOptions, type Selection, type StatisticsOptions, type TensorHeatMapOptions, type ValueReport,
} from './measuring.js';
export { planAdapter, type AdapterRequest } from './planning.js';
export { run } from './running.js';
export { version } from './version.js';
export { BlobTree, fileTree, filesTree, memoryTree, type TreeFile } from './sources/blob-tree.js';
export { handleTree } from './sources/handle-tree.js';
export { expandUrl, urlTree, type UrlOptions } from './sources/http-tree.js';
export { fileSink, folderSink, type FolderSinkOptions } from './sinks/handle-sink.js';
export { discardDownloads, downloadSink, type DownloadSink } from './sinks/download-sink.js';
export { memorySink, type MemorySink } from './sinks/memory-sink.js';
