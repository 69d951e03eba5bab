"""The parts that networks of models that are not read have and ours lacks."""

from collections.abc import Mapping

_BIASED_NORMS = 'layer norms with a mean and a bias'
_MEAN = 'norms with a mean'
_IMAGES = (
    'images; where it stands on a family that is known, give its text part'
)
_LLAMA = (
    "nothing that Llama's lacks, as transformers runs it: a file whose fields"
    ' and tensors are those of a "llama" can be called so'
)
_UNREAD = 'parts that are all here, but its files are not read yet'
_EXPERT_NAMES = 'experts in tensors of other names'
_SHARED = 'ungated experts that all tokens share'
_LATENT = 'latent attention and shared experts'
_STATE = 'state-space layers'
_LINEAR = 'layers of linear attention of another form'
_CONVOLUTIONS = 'layers of convolutions of another form'
_BOTH = 'attention in both directions, which writes no text'
_LEARNED = f'learned positions, {_BIASED_NORMS}'
_ENCODER = f'a decoder of an encoder, {_LEARNED}'
_SINKS = 'attention sinks'
_GATED = 'gates of attention'


def _lack(reason: str, *names: str) -> dict[str, str]:
  return dict.fromkeys(names, reason)


# model_type -> what its network has and `agentrl.models` lacks, for messages.
# All that transformers lists as writers of text are here or in FAMILIES.
LACKED: Mapping[str, str] = {
    **_lack(_LLAMA, 'exaone', 'internlm3', 'iquestcoder'),
    **_lack(
        _UNREAD, 'cwm', 'ernie4_5', 'exaone4', 'flex_olmo', 'glm', 'helium'
    ),
    **_lack(_UNREAD, 'hyperclovax', 'mellum', 'ministral', 'olmoe'),
    **_lack(_UNREAD, 'qwen2_moe'),
    **_lack(_EXPERT_NAMES, 'mixtral', 'granitemoe'),
    **_lack('experts of attention', 'jetmoe'),
    **_lack('experts that sigmoids choose', 'lfm2_moe', 'minimax_m2'),
    **_lack(_SHARED, 'afmoe', 'dots1', 'ernie4_5_moe', 'exaone_moe'),
    **_lack(_SHARED, 'glm4_moe', 'granitemoeshared', 'hunyuan_v1_moe', 'hy_v3'),
    **_lack(_SHARED, 'kolibri1', 'laguna', 'llama4', 'llama4_text'),
    **_lack(_SHARED, 'sarvam_moe', 'solar_open', 'aria_text'),
    **_lack(f'{_SHARED}, {_MEAN}', 'cohere2_moe'),
    **_lack(_LATENT, 'axk1', 'axk2', 'deepseek_v2', 'deepseek_v3'),
    **_lack(_LATENT, 'deepseek_v32', 'deepseek_v4', 'dots3_note', 'hy_v4'),
    **_lack(_LATENT, 'dots3_note_text', 'glm4_moe_lite', 'glm_moe_dsa'),
    **_lack(_LATENT, 'longcat_flash', 'sarvam_mla'),
    **_lack('latent attention', 'minicpm3', 'youtu'),
    **_lack(_STATE, 'bamba', 'falcon_h1', 'falcon_mamba', 'granitemoehybrid'),
    **_lack(_STATE, 'jamba', 'mamba', 'mamba2', 'nemotron_h'),
    **_lack(_STATE, 'zamba', 'zamba2'),
    **_lack(_LINEAR, 'bailing_hybrid', 'kimi_linear', 'lara_mini', 'minimax'),
    **_lack(_LINEAR, 'olmo_hybrid', 'qwen4_exp', 'qwen4_exp_text'),
    **_lack(_CONVOLUTIONS, 'lfm3', 'zaya'),
    **_lack(_CONVOLUTIONS, 'inkling_text', 'inkling2_text'),
    **_lack(_CONVOLUTIONS, 'inkling2_loop_text'),
    **_lack(
        'layers with a recurrent state', 'recurrent_gemma', 'rwkv', 'xlstm'
    ),
    **_lack(f'{_SINKS} and experts of other names', 'flint', 'granitemoe_swa'),
    **_lack(f'{_SINKS} and experts of other names', 'mimo_v2_flash'),
    **_lack(_SINKS, 'granite_swa'),
    **_lack(f'sparse attention and {_SHARED}', 'minimax_m3_vl_text'),
    **_lack(f'{_GATED} and {_EXPERT_NAMES}', 'beam'),
    **_lack(
        'norms with an offset, without a norm of queries and keys', 'gemma'
    ),
    **_lack('soft-capped scores of attention', 'gemma2', 'vaultgemma'),
    **_lack('several states of each token', 'gemma3n', 'gemma3n_text'),
    **_lack("attention to another model's cache", 'gemma4_assistant'),
    **_lack("attention to another model's cache", 'gemma4_unified_assistant'),
    **_lack('an MLP without a gate', 'apertus', 'apertus1p5_text', 'arcee'),
    **_lack('an MLP without a gate, norms without scales', 'nanochat'),
    **_lack(f'an MLP without a gate, {_BIASED_NORMS}', 'jais2', 'nemotron'),
    **_lack(f'an MLP without a gate, {_BIASED_NORMS}', 'persimmon'),
    **_lack('weights of three values and norms inside of blocks', 'bitnet'),
    **_lack('differences of two attentions', 'diffllama'),
    **_lack('dynamic masks of attention', 'doge'),
    **_lack('states on a sphere, layers that are run again', 'dory'),
    **_lack('layers that are run again', 'hrm_text'),
    **_lack('norms without scales', 'olmo'),
    **_lack(f'parallel blocks, {_MEAN}', 'cohere', 'cohere2'),
    **_lack(f'parallel blocks, {_MEAN}', 'cohere_compass_text'),
    **_lack('parts of bytes instead of tokens', 'blt'),
    **_lack(_LEARNED, 'biogpt', 'gpt-sw3', 'gpt2', 'gpt_bigcode', 'gpt_neo'),
    **_lack(_LEARNED, 'openai-gpt', 'opt'),
    **_lack(f'sinusoidal positions, {_BIASED_NORMS}', 'ctrl', 'xglm'),
    **_lack('relative positions', 'cpmant'),
    **_lack(f'relative positions, {_BIASED_NORMS}', 'xlnet'),
    **_lack(
        f'parallel blocks, {_BIASED_NORMS}', 'codegen', 'falcon', 'gpt_neox'
    ),
    **_lack(f'parallel blocks, {_BIASED_NORMS}', 'gptj'),
    **_lack(f'ALiBi positions, {_BIASED_NORMS}', 'bloom'),
    **_lack(f'ALiBi positions, {_MEAN}', 'mpt'),
    **_lack(_BIASED_NORMS, 'phimoe', 'starcoder2'),
    **_lack(_MEAN, 'modernbert-decoder'),
    **_lack(f'experts, {_MEAN}', 'dbrx'),
    **_lack(f'partial rotation, {_BIASED_NORMS}', 'gpt_neox_japanese'),
    **_lack(f'partial rotation, {_BIASED_NORMS}', 'stablelm'),
    **_lack(f'partial rotation, parallel blocks, {_BIASED_NORMS}', 'phi'),
    **_lack('hashed attention and reversible layers', 'reformer'),
    **_lack('an encoder and a decoder', 't5', 'prophetnet'),
    **_lack(
        _ENCODER, 'bart', 'bigbird_pegasus', 'blenderbot', 'marian', 'mbart'
    ),
    **_lack(_ENCODER, 'blenderbot-small', 'mvp', 'pegasus', 'plbart', 'trocr'),
    **_lack(_BOTH, 'bert', 'bert-generation', 'big_bird', 'camembert'),
    **_lack(_BOTH, 'data2vec-text', 'electra', 'ernie', 'megatron-bert'),
    **_lack(_BOTH, 'rembert', 'roberta', 'roberta-prelayernorm', 'roc_bert'),
    **_lack(_BOTH, 'roformer', 'xlm', 'xlm-roberta', 'xlm-roberta-xl', 'xmod'),
    **_lack('sound', 'moshi', 'moss_transcribe_diarize', 'musicgen', 'whisper'),
    **_lack('sound', 'musicgen_melody'),
    **_lack('sound and images', 'phi4_multimodal'),
    **_lack(_IMAGES, 'emu3', 'fuyu', 'git', 'got_ocr2', 'llava', 'mllama'),
    **_lack(_IMAGES, 'qwen2_vl', 'qwen2_5_vl', 'qwen3_vl'),
}
