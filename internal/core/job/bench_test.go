package job_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
)

func BenchmarkIDs(b *testing.B) {
	ids, at := job.NewIDs(storeKey), time.UnixMilli(1_790_000_000_000)
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for seq := int64(0); b.Loop(); seq++ {
			ids.Make(at, seq)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		id := ids.Make(at, 42)
		for b.Loop() {
			if _, _, ok := ids.Parse(id); !ok {
				b.Fatal("refused")
			}
		}
	})
}

func BenchmarkTokens(b *testing.B) {
	tokens := job.NewTokens(storeKey)
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for seq := int64(0); b.Loop(); seq++ {
			tokens.Make(seq, 1)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		token := tokens.Make(42, 1)
		for b.Loop() {
			if _, _, ok := tokens.Parse(token); !ok {
				b.Fatal("refused")
			}
		}
	})
}
