// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"strings"
	"testing"
)

func TestWithoutCode(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"handler.py": "import os\n\ndef handle(event, context):\n    os.system(\n        \"xmrig --donate-level 1 -o pool\")\n    return 'münzen für alle von überallher'\n",
		"lib/a.js":   "const token = 'c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0';",
	}
	tests := map[string]struct{ reason, want string }{
		"nothing quoted":         {reason: "handler.py starts a cryptocurrency miner", want: "handler.py starts a cryptocurrency miner"},
		"a name":                 {reason: "handler.py calls os.system with xmrig", want: "handler.py calls os.system with xmrig"},
		"a line":                 {reason: `It runs os.system("xmrig --donate-level 1 -o pool"), a miner`, want: `It runs [code]"), a miner`},
		"other spaces and marks": {reason: "It runs OS.System( 'xmrig --donate-level  1 -o pool' ) to mine", want: "It runs [code]' ) to mine"},
		"two":                    {reason: "Runs os.system(xmrig --donate-level 1) with the token c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0 inside", want: "Runs [code]) with the [code] inside"},
		"letters of two bytes":   {reason: "It says münzen für alle von überallher to all", want: "It says [code] to all"},
		"nothing but a quote":    {reason: `"os.system(xmrig --donate-level 1)"`, want: ""},
		"short":                  {reason: "x", want: "x"},
		"empty":                  {},
		"broken characters":      {reason: "mines \xff\xfecoins", want: "mines coins"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := withoutCode(tc.reason, files); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestWithoutCodeIsBounded has the largest code and a reason that is much too long.
func TestWithoutCodeIsBounded(t *testing.T) {
	t.Parallel()
	code := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", MaxReviewBytes/36)
	got := withoutCode(strings.Repeat("safe ", 100)+code, map[string]string{"a.py": code})
	if want := strings.Repeat("safe ", 100) + quotation; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
