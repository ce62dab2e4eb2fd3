package config

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"reflect"

	"github.com/pawlhq/pawl/internal/setting"
)

// maxDigested bounds what is read of one file: certificates with their chains
// and bundles of authorities are far smaller.
const maxDigested = 4 << 20

// digest sums up the files that settings name to be read (path:"read"), so that
// a reload sees a certificate that was renewed under its old name. It is "" for
// settings that name none. A file that can't be read counts as empty: opening
// it will say what is wrong.
func digest(settings any) string {
	sum := sha256.New()
	if digestInto(sum, reflect.ValueOf(settings)) == 0 {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// digestInto adds the files below v and returns how many there are.
func digestInto(sum hash.Hash, v reflect.Value) (files int) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return 0
	}
	for _, f := range fieldsOf(v.Type()) {
		field := v.FieldByIndex(f.index)
		if f.tags.path != readPath || field.Kind() != reflect.String {
			files += digestInto(sum, field)
			continue
		}
		if field.String() == "" {
			continue
		}
		text, _ := setting.ReadFile(field.String(), maxDigested)
		one := sha256.Sum256(text) // of each by itself: what moves from one to the next is a change
		_, _ = io.WriteString(sum, f.key)
		_, _ = sum.Write(one[:])
		files++
	}
	return files
}
