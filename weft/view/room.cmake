weft_embed(weft_view weft/view/timeline_page.html weft/view/timeline_text.h weft::view timeline_page)
