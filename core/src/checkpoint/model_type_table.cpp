// The table of model types: facts about names and shapes, by family. Where types are alike, they share the arrays.
#include "tftf/checkpoint/model_types.h"

namespace tftf {
namespace {

using Use = NameRule::Use;

constexpr NameRule kMixtralNames[] = {
    {{".block_sparse_moe.", ".mlp."}},
};
constexpr ExpertKind kMixtralExperts[] = {
    {.path = {"block_sparse_moe.experts", "mlp.experts"},
     .gate = "w1",
     .up = "w3",
     .down = "w2",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj"},
};
constexpr NameRule kPhimoeNames[] = {
    {{".block_sparse_moe.gate.", ".mlp.router."}},
    {{".block_sparse_moe.", ".mlp."}},
};
constexpr ExpertKind kQwen2MoeExperts[] = {
    {.path = {"mlp.experts", "mlp.experts"},
     .gate = "gate_proj",
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj"},
};
constexpr NameRule kErnie45MoeNames[] = {
    {{".mlp.moe_statics.", ".mlp.gate.moe_statics."}},
};
constexpr NameRule kExaoneMoeNames[] = {
    {{".mlp.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"}},
};
constexpr NameRule kHyV3Names[] = {
    {{".mlp.router.gate.", ".mlp.gate."}},
    {{".mlp.expert_bias", ".mlp.e_score_correction_bias"}},
    {{".mlp.shared_mlp.", ".mlp.shared_experts."}},
};
constexpr NameRule kLagunaNames[] = {
    {{".mlp.experts.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"}},
    {{".mlp.shared_expert.", ".mlp.shared_experts."}},
};
constexpr ExpertKind kLfm2MoeExperts[] = {
    {.path = {"feed_forward.experts", "feed_forward.experts"},
     .gate = "w1",
     .up = "w3",
     .down = "w2",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj"},
};
constexpr ExpertKind kJambaExperts[] = {
    {.path = {"feed_forward.experts", "feed_forward.experts"},
     .gate = "gate_proj",
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj"},
};
constexpr NameRule kNemotronHNames[] = {
    {{"backbone.", "model."}},
    {{"lm_head.", "lm_head."}},
    {{"mtp.", "mtp."}, Use::kKeep},
    {{"backbone.embedding.", "model.embeddings."}, Use::kTo5},
};
constexpr ExpertKind kNemotronHExperts[] = {
    {.path = {"mixer.experts", "mixer.experts"},
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "up_proj",
     .fused_down = "down_proj"},
};
constexpr NameRule kDeepseekV4Names[] = {
    {{"embed.", "model.embed_tokens."}},
    {{"head.", "lm_head."}},
    {{"norm.", "model.norm."}},
    {{"mtp.", "mtp."}, Use::kKeep},
    {{"layers.", "model.layers."}},
    {{"hc_head_fn", "model.hc_head.hc_fn"}},
    {{"hc_head_base", "model.hc_head.hc_base"}},
    {{"hc_head_scale", "model.hc_head.hc_scale"}},
    {{".attn_norm.", ".input_layernorm."}},
    {{".ffn_norm.", ".post_attention_layernorm."}},
    {{".hc_attn_fn", ".attn_hc.fn"}},
    {{".hc_attn_base", ".attn_hc.base"}},
    {{".hc_attn_scale", ".attn_hc.scale"}},
    {{".hc_ffn_fn", ".ffn_hc.fn"}},
    {{".hc_ffn_base", ".ffn_hc.base"}},
    {{".hc_ffn_scale", ".ffn_hc.scale"}},
    {{".attn.attn_sink", ".self_attn.sinks"}},
    {{".attn.wq_a.", ".self_attn.q_a_proj."}},
    {{".attn.wq_b.", ".self_attn.q_b_proj."}},
    {{".attn.wkv.", ".self_attn.kv_proj."}},
    {{".attn.wo_a.", ".self_attn.o_a_proj."}},
    {{".attn.wo_b.", ".self_attn.o_b_proj."}},
    {{".attn.q_norm.", ".self_attn.q_a_norm."}},
    {{".attn.kv_norm.", ".self_attn.kv_norm."}},
    {{".attn.compressor.norm.", ".self_attn.compressor.kv_norm."}},
    {{".attn.compressor.ape", ".self_attn.compressor.position_bias"}},
    {{".attn.compressor.wkv.", ".self_attn.compressor.kv_proj."}},
    {{".attn.compressor.wgate.", ".self_attn.compressor.gate_proj."}},
    {{".attn.indexer.compressor.norm.", ".self_attn.compressor.indexer.kv_norm."}},
    {{".attn.indexer.compressor.ape", ".self_attn.compressor.indexer.position_bias"}},
    {{".attn.indexer.compressor.wkv.", ".self_attn.compressor.indexer.kv_proj."}},
    {{".attn.indexer.compressor.wgate.", ".self_attn.compressor.indexer.gate_proj."}},
    {{".attn.indexer.wq_b.", ".self_attn.compressor.indexer.q_b_proj."}},
    {{".attn.indexer.weights_proj.", ".self_attn.compressor.indexer.scorer.weights_proj."}},
    {{".ffn.gate.bias", ".mlp.gate.e_score_correction_bias"}},
    {{".ffn.shared_experts.w1.", ".mlp.shared_experts.gate_proj."}},
    {{".ffn.shared_experts.w2.", ".mlp.shared_experts.down_proj."}},
    {{".ffn.shared_experts.w3.", ".mlp.shared_experts.up_proj."}},
    {{".ffn.", ".mlp."}},
};
constexpr ExpertKind kDeepseekV4Experts[] = {
    {.path = {"ffn.experts", "mlp.experts"},
     .gate = "w1",
     .up = "w3",
     .down = "w2",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj"},
};
constexpr InLayouts<std::string_view> kDeepseekV4Suffixes[] = {{".scale", ".weight_scale_inv"}};
constexpr ExpertKind kGptOssExperts[] = {
    {.path = {"mlp.experts", "mlp.experts"},
     .gate = "gate_proj",
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj",
     .form = {ExpertForm::kFused, ExpertForm::kFused},
     .axes = {ExpertAxes::kInOut, ExpertAxes::kInOut},
     .interleaved = true,
     .bias = true},
};
constexpr ExpertKind kLlama4TextExperts[] = {
    {.path = {"feed_forward.experts", "feed_forward.experts"},
     .gate = "gate_proj",
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj",
     .form = {ExpertForm::kFused, ExpertForm::kFused},
     .axes = {ExpertAxes::kInOut, ExpertAxes::kInOut}},
};
constexpr ExpertKind kMistral4Experts[] = {
    {.path = {"mlp.experts", "mlp.experts"},
     .gate = "gate_proj",
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj",
     .form = {ExpertForm::kFused, ExpertForm::kFused}},
};
constexpr ExpertKind kGemma4TextExperts[] = {
    {.path = {"experts", "experts"},
     .gate = "gate_proj",
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj",
     .form = {ExpertForm::kFused, ExpertForm::kFused}},
};
constexpr ExpertKind kQwen35MoeTextExperts[] = {
    {.path = {"mlp.experts", "mlp.experts"},
     .gate = "gate_proj",
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj",
     .form = {ExpertForm::kKept, ExpertForm::kFused}},
};
constexpr ExpertKind kGranitemoeExperts[] = {
    {.path = {"block_sparse_moe", "block_sparse_moe"},
     .split_path = "block_sparse_moe.experts",
     .gate = "w1",
     .up = "w3",
     .down = "w2",
     .fused_up = "input_linear.weight",
     .fused_down = "output_linear.weight",
     .form = {ExpertForm::kFused, ExpertForm::kFused}},
};
constexpr NameRule kHrmTextNames[] = {
    {{".attn.o_proj.", ".self_attn.o_proj."}},
};
constexpr std::string_view kHrmTextJoinParts0[] = {"mlp.gate_proj.weight", "mlp.up_proj.weight"};
constexpr std::string_view kHrmTextJoinParts1[] = {"self_attn.gate_proj.weight", "self_attn.q_proj.weight",
                                                   "self_attn.k_proj.weight", "self_attn.v_proj.weight"};
constexpr JoinedMatrix kHrmTextJoins[] = {
    {"mlp.gate_up_proj.weight", kHrmTextJoinParts0, NameLayout::kTransformers4},
    {"attn.gqkv_proj.weight", kHrmTextJoinParts1, NameLayout::kTransformers4},
};
constexpr NameRule kOlmoHybridNames[] = {
    {{".attention_layer_norm.", ".input_layernorm."}, Use::kTo5},
    {{".feedforward_layer_norm.", ".post_attention_layernorm."}, Use::kTo5},
};
constexpr NameRule kLlavaNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"vision_tower.", "model.vision_tower."}},
    {{"multi_modal_projector.", "model.multi_modal_projector."}},
};
constexpr TextPart kLlavaText = {"text_config",
                                 {"language_model.model.", "model.language_model."},
                                 {"language_model.lm_head.", "lm_head."}};
constexpr NameRule kLlavaNextNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"vision_tower.", "model.vision_tower."}},
    {{"multi_modal_projector.", "model.multi_modal_projector."}},
    {{"image_newline", "model.image_newline"}},
};
constexpr NameRule kVideoLlavaNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"image_tower.", "model.image_tower."}},
    {{"video_tower.", "model.video_tower."}},
    {{"multi_modal_projector.", "model.multi_modal_projector."}},
};
constexpr NameRule kMllamaNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"vision_model.", "model.vision_model."}},
    {{"multi_modal_projector.", "model.multi_modal_projector."}},
};
constexpr NameRule kFuyuNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"vision_embed_tokens.", "model.vision_embed_tokens."}},
};
constexpr NameRule kEmu3Names[] = {
    {{"text_model.model.", "model.text_model."}},
    {{"text_model.lm_head.", "lm_head."}},
    {{"vqmodel.", "model.vqmodel."}},
};
constexpr TextPart kEmu3Text = {
    "text_config", {"text_model.model.", "model.text_model."}, {"text_model.lm_head.", "lm_head."}};
constexpr NameRule kQwen2AudioNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"audio_tower.", "model.audio_tower."}},
    {{"multi_modal_projector.", "model.multi_modal_projector."}},
};
constexpr NameRule kGraniteSpeechNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"encoder.", "model.encoder."}},
    {{"projector.", "model.projector."}},
};
constexpr NameRule kVibevoiceAsrNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"acoustic_tokenizer_encoder.", "model.acoustic_tokenizer_encoder."}},
    {{"semantic_tokenizer_encoder.", "model.semantic_tokenizer_encoder."}},
    {{"multi_modal_projector.", "model.multi_modal_projector."}},
};
constexpr NameRule kQwen2VlNames[] = {
    {{"model.", "model.language_model."}},
    {{"lm_head.", "lm_head."}},
    {{"visual.", "model.visual."}},
};
constexpr TextPart kQwen2VlText = {
    "text_config", {"model.", "model.language_model."}, {"lm_head.", "lm_head."}, "qwen2_vl_text"};
constexpr TextPart kQwen25VlText = {
    "text_config", {"model.", "model.language_model."}, {"lm_head.", "lm_head."}, "qwen2_5_vl_text"};
constexpr NameRule kPaddleocrVlNames[] = {
    {{"model.", "model.language_model."}},
    {{"lm_head.", "lm_head."}},
    {{"visual.", "model.visual."}},
    {{"mlp_AR.", "model.projector."}},
};
constexpr TextPart kPaddleocrVlText = {
    "text_config", {"model.", "model.language_model."}, {"lm_head.", "lm_head."}};
constexpr NameRule kQwen3VlNames[] = {
    {{"model.language_model.", "model.language_model."}},
    {{"lm_head.", "lm_head."}},
    {{"mtp.", "mtp."}},
    {{"model.visual.", "model.visual."}},
};
constexpr TextPart kQwen3VlText = {
    "text_config", {"model.language_model.", "model.language_model."}, {"lm_head.", "lm_head."}};
constexpr ExpertKind kQwen3VlMoeExperts[] = {
    {.path = {"mlp.experts", "mlp.experts"},
     .gate = "gate_proj",
     .up = "up_proj",
     .down = "down_proj",
     .fused_up = "gate_up_proj",
     .fused_down = "down_proj",
     .form = {ExpertForm::kFused, ExpertForm::kFused},
     .axes = {ExpertAxes::kInOut, ExpertAxes::kOutIn}},
};
constexpr NameRule kGemma4Names[] = {
    {{"model.language_model.", "model.language_model."}},
    {{"lm_head.", "lm_head."}},
    {{"mtp.", "mtp."}},
    {{"model.vision_tower.", "model.vision_tower."}},
    {{"model.audio_tower.", "model.audio_tower."}},
    {{"model.embed_vision.", "model.embed_vision."}},
    {{"model.embed_audio.", "model.embed_audio."}},
};
constexpr NameRule kLlama4Names[] = {
    {{"language_model.model.", "language_model.model."}},
    {{"language_model.lm_head.", "language_model.lm_head."}},
    {{"vision_model.", "vision_model."}},
    {{"multi_modal_projector.", "multi_modal_projector."}},
};
constexpr TextPart kLlama4Text = {"text_config",
                                  {"language_model.model.", "language_model.model."},
                                  {"language_model.lm_head.", "language_model.lm_head."}};
constexpr NameRule kMinimaxM3VlNames[] = {
    {{"language_model.model.", "model.language_model."}},
    {{"language_model.lm_head.", "lm_head."}},
    {{"vision_tower.vision_model.embeddings.patch_embedding.", "model.vision_tower.embeddings.proj."}},
    {{"vision_tower.vision_model.encoder.layers.", "model.vision_tower.layers."}},
    {{"vision_tower.vision_model.pre_layrnorm.", "model.vision_tower.pre_layrnorm."}},
    {{"multi_modal_projector.linear_1.", "model.multi_modal_projector.linear_1."}},
    {{"multi_modal_projector.linear_2.", "model.multi_modal_projector.linear_2."}},
    {{"patch_merge_mlp.linear_1.", "model.multi_modal_projector.merge_linear_1."}},
    {{"patch_merge_mlp.linear_2.", "model.multi_modal_projector.merge_linear_2."}},
    {{".block_sparse_moe.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"}},
    {{".block_sparse_moe.experts.", ".mlp.experts."}},
    {{".block_sparse_moe.shared_experts.", ".mlp.shared_experts."}},
    {{".block_sparse_moe.gate.", ".mlp.gate."}},
    {{".self_attn.index_q_proj.", ".self_attn.indexer.q_proj."}},
    {{".self_attn.index_k_proj.", ".self_attn.indexer.k_proj."}},
    {{".self_attn.index_q_norm.", ".self_attn.indexer.q_norm."}},
    {{".self_attn.index_k_norm.", ".self_attn.indexer.k_norm."}},
};
constexpr std::string_view kMinimaxM3VlJoinParts0[] = {"mlp.gate_proj.weight", "mlp.up_proj.weight"};
constexpr std::string_view kMinimaxM3VlJoinParts1[] = {"mlp.shared_experts.gate_proj.weight",
                                                       "mlp.shared_experts.up_proj.weight"};
constexpr JoinedMatrix kMinimaxM3VlJoins[] = {
    {"mlp.gate_up_proj.weight", kMinimaxM3VlJoinParts0, NameLayout::kTransformers5},
    {"mlp.shared_experts.gate_up_proj.weight", kMinimaxM3VlJoinParts1, NameLayout::kTransformers5},
};

constexpr ModelType kModelTypes[] = {
    {.name = "mixtral", .names = kMixtralNames, .experts = kMixtralExperts},
    {.name = "minimax", .names = kMixtralNames, .experts = kMixtralExperts},
    {.name = "minimax_m2", .names = kMixtralNames, .experts = kMixtralExperts},
    {.name = "phimoe", .names = kPhimoeNames, .experts = kMixtralExperts},
    {.name = "qwen2_moe", .experts = kQwen2MoeExperts},
    {.name = "qwen3_moe", .experts = kQwen2MoeExperts},
    {.name = "qwen3_next", .experts = kQwen2MoeExperts},
    {.name = "deepseek_v2", .experts = kQwen2MoeExperts},
    {.name = "deepseek_v3", .experts = kQwen2MoeExperts},
    {.name = "deepseek_v32", .experts = kQwen2MoeExperts},
    {.name = "dots1", .experts = kQwen2MoeExperts},
    {.name = "glm4_moe", .experts = kQwen2MoeExperts},
    {.name = "glm4_moe_lite", .experts = kQwen2MoeExperts},
    {.name = "glm_moe_dsa", .experts = kQwen2MoeExperts},
    {.name = "solar_open", .experts = kQwen2MoeExperts},
    {.name = "mellum", .experts = kQwen2MoeExperts},
    {.name = "afmoe", .experts = kQwen2MoeExperts},
    {.name = "hunyuan_v1_moe", .experts = kQwen2MoeExperts},
    {.name = "flex_olmo", .experts = kQwen2MoeExperts},
    {.name = "olmoe", .experts = kQwen2MoeExperts},
    {.name = "cohere2_moe", .experts = kQwen2MoeExperts},
    {.name = "ernie4_5_moe", .names = kErnie45MoeNames, .experts = kQwen2MoeExperts},
    {.name = "exaone_moe", .names = kExaoneMoeNames, .experts = kQwen2MoeExperts},
    {.name = "hy_v3", .names = kHyV3Names, .experts = kQwen2MoeExperts},
    {.name = "laguna", .names = kLagunaNames, .experts = kQwen2MoeExperts},
    {.name = "lfm2_moe", .experts = kLfm2MoeExperts},
    {.name = "jamba", .experts = kJambaExperts},
    {.name = "nemotron_h", .names = kNemotronHNames, .experts = kNemotronHExperts},
    {.name = "deepseek_v4",
     .names = kDeepseekV4Names,
     .experts = kDeepseekV4Experts,
     .suffixes = kDeepseekV4Suffixes},
    {.name = "gpt_oss", .experts = kGptOssExperts},
    {.name = "llama4_text", .experts = kLlama4TextExperts},
    {.name = "mistral4", .experts = kMistral4Experts},
    {.name = "gemma4_text", .experts = kGemma4TextExperts},
    {.name = "qwen3_5_moe_text", .experts = kQwen35MoeTextExperts},
    {.name = "granitemoe", .experts = kGranitemoeExperts},
    {.name = "granitemoeshared", .experts = kGranitemoeExperts},
    {.name = "granitemoehybrid", .experts = kGranitemoeExperts},
    {.name = "hrm_text", .names = kHrmTextNames, .joins = kHrmTextJoins},
    {.name = "olmo_hybrid", .names = kOlmoHybridNames, .only_to5 = true},
    {.name = "llava", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "vipllava", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "paligemma", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "gemma3", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "mistral3", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "internvl", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "aya_vision", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "got_ocr2", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "pp_chart2table", .names = kLlavaNames, .text = &kLlavaText},
    {.name = "llava_next", .names = kLlavaNextNames, .text = &kLlavaText},
    {.name = "llava_next_video", .names = kLlavaNextNames, .text = &kLlavaText},
    {.name = "llava_onevision", .names = kLlavaNextNames, .text = &kLlavaText},
    {.name = "video_llava", .names = kVideoLlavaNames, .text = &kLlavaText},
    {.name = "mllama", .names = kMllamaNames, .text = &kLlavaText},
    {.name = "fuyu", .names = kFuyuNames, .text = &kLlavaText},
    {.name = "emu3", .names = kEmu3Names, .text = &kEmu3Text},
    {.name = "qwen2_audio", .names = kQwen2AudioNames, .text = &kLlavaText},
    {.name = "voxtral", .names = kQwen2AudioNames, .text = &kLlavaText},
    {.name = "voxtral_realtime", .names = kQwen2AudioNames, .text = &kLlavaText},
    {.name = "audioflamingo3", .names = kQwen2AudioNames, .text = &kLlavaText},
    {.name = "glmasr", .names = kQwen2AudioNames, .text = &kLlavaText},
    {.name = "musicflamingo", .names = kQwen2AudioNames, .text = &kLlavaText},
    {.name = "granite_speech", .names = kGraniteSpeechNames, .text = &kLlavaText},
    {.name = "granite_speech_plus", .names = kGraniteSpeechNames, .text = &kLlavaText},
    {.name = "vibevoice_asr", .names = kVibevoiceAsrNames, .text = &kLlavaText},
    {.name = "qwen2_vl", .names = kQwen2VlNames, .text = &kQwen2VlText},
    {.name = "qwen2_5_vl", .names = kQwen2VlNames, .text = &kQwen25VlText},
    {.name = "paddleocr_vl", .names = kPaddleocrVlNames, .text = &kPaddleocrVlText},
    {.name = "qwen3_vl", .names = kQwen3VlNames, .text = &kQwen3VlText},
    {.name = "qwen3_5", .names = kQwen3VlNames, .text = &kQwen3VlText},
    {.name = "glm4v", .names = kQwen3VlNames, .text = &kQwen3VlText},
    {.name = "qwen3_vl_moe", .names = kQwen3VlNames, .experts = kQwen3VlMoeExperts, .text = &kQwen3VlText},
    {.name = "qwen3_5_moe", .names = kQwen3VlNames, .experts = kQwen35MoeTextExperts, .text = &kQwen3VlText},
    {.name = "glm4v_moe", .names = kQwen3VlNames, .experts = kQwen2MoeExperts, .text = &kQwen3VlText},
    {.name = "gemma4", .names = kGemma4Names, .experts = kGemma4TextExperts, .text = &kQwen3VlText},
    {.name = "llama4", .names = kLlama4Names, .experts = kLlama4TextExperts, .text = &kLlama4Text},
    {.name = "minimax_m3_vl",
     .names = kMinimaxM3VlNames,
     .experts = kMixtralExperts,
     .joins = kMinimaxM3VlJoins},
};

}  // namespace

std::span<const ModelType> model_types() { return kModelTypes; }

}  // namespace tftf
