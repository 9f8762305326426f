"""transformers and peft: tiny models from their configurations, with random weights."""

from dataclasses import dataclass

import lightning as L
import pytest
import torch
import zoo
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.zoo
N, WORDS, LENGTH = 44, 50, 7
TINY = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY |= {"intermediate_size": 24, "max_position_embeddings": 32}


def sentences():
    """Sentences of different lengths, with a class."""
    held = []
    for i in range(N):
        ids = torch.randint(3, WORDS, (3 + i % 5,)).tolist()
        held.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": i % 3})
    return held


def padded(samples):
    """What a tokenizer gives: a BatchEncoding, padded to the longest."""
    from transformers import BatchEncoding

    longest = max(len(sample["input_ids"]) for sample in samples)
    pad = {
        key: [s[key] + [0] * (longest - len(s["input_ids"])) for s in samples] for key in samples[0] if key != "labels"
    }
    labels = [sample["labels"] for sample in samples]
    return BatchEncoding({**pad, "labels": labels}, tensor_type="pt")


class Transformer(L.LightningModule):
    """A model that knows its loss; AdamW with linear warm-up, as everybody has it."""

    rate = 1e-3

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        return self.model(**inputs)

    def training_step(self, batch, batch_idx):
        loss = self(**batch).loss
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        found = self(**batch)
        self.log("val_loss", found.loss)
        if found.logits.dim() == 2:
            self.log("val_acc", (found.logits.argmax(1) == batch["labels"]).float().mean())

    def configure_optimizers(self):
        from transformers import get_linear_schedule_with_warmup

        optimizer = torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], self.rate, weight_decay=0.01)
        steps = self.trainer.estimated_stepping_batches
        schedule = get_linear_schedule_with_warmup(optimizer, 2, steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def test_glue():
    """The module of Lightning's tutorial on text transformers."""
    from transformers import BertConfig, BertForSequenceClassification

    def make():
        return Transformer(BertForSequenceClassification(BertConfig(**TINY, num_labels=3)))

    zoo.check(make, lambda: (sentences(), padded), "transformers", name="GLUETransformer, BERT, BatchEncoding")


def test_bert_in_eval_mode():
    """``from_pretrained`` gives models in evaluation mode, and Lightning leaves them so."""
    from transformers import BertConfig, BertForSequenceClassification

    def make():
        return Transformer(BertForSequenceClassification(BertConfig(**TINY, num_labels=3)).eval())

    zoo.check(make, lambda: (sentences(), padded), "transformers", name="BERT in evaluation mode")


def test_distilbert_frozen_bfloat16():
    from transformers import DistilBertConfig, DistilBertModel

    class Probe(L.LightningModule):
        """A frozen backbone in bfloat16 and a head that trains."""

        def __init__(self):
            super().__init__()
            config = DistilBertConfig(vocab_size=WORDS, dim=16, n_layers=2, n_heads=2, hidden_dim=24)
            self.backbone = DistilBertModel(config).to(torch.bfloat16).requires_grad_(False).eval()
            self.head = nn.Linear(16, 3)

        def training_step(self, batch, batch_idx):
            hidden = self.backbone(batch["input_ids"], batch["attention_mask"]).last_hidden_state[:, 0]
            return F.cross_entropy(self.head(hidden.float()), batch["labels"])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-2, weight_decay=0.1)

    zoo.check(Probe, lambda: (sentences(), padded), "transformers", name="DistilBERT, frozen, bfloat16")


def lines():
    return [{"input_ids": torch.randint(WORDS, (LENGTH,)), "labels": torch.zeros(0)} for _ in range(N)]


def next_token(samples):
    ids = torch.stack([sample["input_ids"] for sample in samples])
    return {"input_ids": ids, "labels": ids.clone()}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=2, n_head=2))


def test_next_token():
    zoo.check(lambda: Transformer(gpt2()), lambda: (lines(), next_token), "transformers", name="GPT-2, next token")


def test_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    def make():
        return Transformer(LlamaForCausalLM(LlamaConfig(**TINY)))

    zoo.check(make, lambda: (lines(), next_token), "transformers", name="Llama, next token")


def test_t5():
    from transformers import T5Config, T5ForConditionalGeneration

    def make():
        config = T5Config(
            vocab_size=WORDS, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0
        )
        return Transformer(T5ForConditionalGeneration(config))

    zoo.check(make, lambda: (lines(), next_token), "transformers", name="T5, sequence to sequence")


def test_masked_words():
    from transformers import RobertaConfig, RobertaForMaskedLM

    def masked(samples):
        batch = next_token(samples)
        chosen = torch.rand(batch["input_ids"].shape) < 0.3
        chosen[:, 0] = True
        return {
            "input_ids": batch["input_ids"].masked_fill(chosen, 3),
            "labels": batch["labels"].masked_fill(~chosen, -100),
        }

    def make():
        return Transformer(RobertaForMaskedLM(RobertaConfig(**TINY)))

    zoo.check(make, lambda: (lines(), masked), "transformers", name="RoBERTa, words masked as batches are made")


@dataclass
class Told:
    """A batch as a dataclass."""

    ids: torch.Tensor
    classes: torch.Tensor


def test_dataclass():
    from transformers import ElectraConfig, ElectraForSequenceClassification

    class Electra(Transformer):
        def __init__(self):
            super().__init__(ElectraForSequenceClassification(ElectraConfig(**TINY, embedding_size=16, num_labels=3)))

        def training_step(self, batch, batch_idx):
            return self(input_ids=batch.ids, labels=batch.classes).loss

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", self.training_step(batch, batch_idx))

    def told(samples):
        batch = padded(samples)
        return Told(batch["input_ids"], batch["labels"])

    zoo.check(Electra, lambda: (sentences(), told), "transformers", name="ELECTRA, a dataclass as batch")


def test_vit():
    from transformers import ViTConfig, ViTForImageClassification

    def make():
        small = {key: value for key, value in TINY.items() if key not in ("vocab_size", "max_position_embeddings")}
        return Transformer(ViTForImageClassification(ViTConfig(**small, image_size=16, patch_size=8, num_labels=3)))

    def data():
        return ([{"pixel_values": torch.rand(3, 16, 16), "labels": i % 3} for i in range(N)],)

    zoo.check(make, data, "transformers", name="ViT")


def test_wav2vec():
    from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification

    def make():
        small = {key: value for key, value in TINY.items() if key not in ("vocab_size", "max_position_embeddings")}
        config = Wav2Vec2Config(
            **small,
            vocab_size=WORDS,
            conv_dim=(8, 8),
            conv_stride=(5, 4),
            conv_kernel=(10, 8),
            num_feat_extract_layers=2,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=2,
            num_labels=3,
            mask_time_length=2,
        )
        model = Wav2Vec2ForSequenceClassification(config)
        model.freeze_feature_encoder()
        return Transformer(model)

    def data():
        return ([{"input_values": torch.randn(400), "labels": i % 3} for i in range(N)],)

    zoo.check(make, data, "transformers", name="wav2vec 2.0, frozen feature encoder", epochs=1)


# ------------------------------------------------------------------------------------------ peft


@pytest.mark.parametrize("name", ["LoRA", "DoRA", "IA3", "prefix tuning", "prompt tuning", "AdaLoRA"])
def test_peft(name):
    import peft

    low = {"r": 2, "target_modules": ["c_attn"], "task_type": "CAUSAL_LM"}

    def config():
        if name == "IA3":
            return peft.IA3Config(
                target_modules=["c_attn", "c_fc"], feedforward_modules=["c_fc"], task_type="CAUSAL_LM"
            )
        if name == "prefix tuning":
            return peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
        if name == "prompt tuning":
            return peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
        if name == "AdaLoRA":
            adaptive = {
                "init_r": 4,
                "target_r": 2,
                "total_step": 100,
                "tinit": 2,
                "tfinal": 90,
                "target_modules": ["c_attn"],
            }
            return peft.AdaLoraConfig(**adaptive, task_type="CAUSAL_LM")
        return peft.LoraConfig(**low, lora_dropout=0.1, use_dora=name == "DoRA")

    def make():
        return Transformer(peft.get_peft_model(gpt2(), config()))

    zoo.check(make, lambda: (lines(), next_token), "peft transformers", name=f"GPT-2, {name}")


def test_peft_bfloat16_classifier():
    import peft
    from transformers import BertConfig, BertForSequenceClassification

    def make():
        model = BertForSequenceClassification(BertConfig(**TINY, num_labels=3)).to(torch.bfloat16)
        config = peft.LoraConfig(
            r=2, target_modules=["query", "value"], modules_to_save=["classifier"], task_type="SEQ_CLS"
        )
        return Transformer(peft.get_peft_model(model, config))

    name = "BERT, bfloat16, LoRA and a head"
    zoo.check(make, lambda: (sentences(), padded), "peft transformers", name=name)
