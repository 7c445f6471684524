"""Nouns of the toy corpus, one a line: article, singular, plural | English singular and irregular plural | classes."""

NOUNS = """
der Mann Männer | man men | person
die Frau Frauen | woman women | person
das Kind Kinder | child children | person
der Junge Jungen* | boy | person
das Mädchen Mädchen | girl | person
der Lehrer Lehrer | teacher | person
der Arzt Ärzte | doctor | person
der Bäcker Bäcker | baker | person
der Student Studenten* | student | person
der Kunde Kunden* | customer | person
der Nachbar Nachbarn* | neighbour | person
der Freund Freunde | friend | person
der Bruder Brüder | brother | person
die Schwester Schwestern | sister | person
die Mutter Mütter | mother | person
der Vater Väter | father | person
der Sohn Söhne | son | person
die Tochter Töchter | daughter | person
die Großmutter Großmütter | grandmother | person
der Onkel Onkel | uncle | person
die Tante Tanten | aunt | person
der König Könige | king | person
die Königin Königinnen | queen | person
der Leiter - | manager | person
der Gast Gäste | guest | person
der Polizist Polizisten* | policeman policemen | person
der Maler Maler | painter | person
der Richter Richter | judge | person
die Sängerin Sängerinnen | singer | person
der Bauer Bauern* | farmer | person
der Hund Hunde | dog | animal
die Katze Katzen | cat | animal
das Pferd Pferde | horse | animal
der Vogel Vögel | bird | animal
der Hahn Hähne | rooster | animal
die Kuh Kühe | cow | animal
die Schlange Schlangen | snake | animal
der Strauß Strauße | ostrich ostriches | animal
die Maus Mäuse | mouse mice | animal
das Schaf Schafe | sheep sheep | animal
der Apfel Äpfel | apple | food
das Brot Brote | loaf loaves | food
der Kuchen Kuchen | cake | food
die Suppe Suppen | soup | food spicy
die Birne Birnen | pear | food
das Gericht Gerichte | dish dishes | food spicy
das Ei Eier | egg | food
die Kartoffel Kartoffeln | potato potatoes | food
die Wurst Würste | sausage | food spicy
das Wasser - | water | drink
die Milch - | milk | drink
der Kaffee - | coffee | drink
der Tee - | tea | drink
der Wein - | wine | drink
das Bier - | beer | drink
das Buch Bücher | book | text
der Brief Briefe | letter | text
die Zeitung Zeitungen | newspaper | text
der Roman Romane | novel | text
das Gedicht Gedichte | poem | text
der Bericht Berichte | report | text
das Schloss Schlösser | lock | device
der Hahn Hähne | tap | device
das Fenster Fenster | window | device
die Tür Türen | door | device painted
die Uhr Uhren | clock | ware
das Fahrrad Fahrräder | bicycle | ware vehicle
das Auto Autos | car | ware vehicle
das Boot Boote | boat | ware vehicle
die Lampe Lampen | lamp | ware
der Tisch Tische | table | ware surface
der Stuhl Stühle | chair | ware surface
die Bank Bänke | bench benches | ware surface
der Teppich Teppiche | carpet | ware surface
die Leiter Leitern | ladder | ware
die Decke Decken | blanket | ware
das Messer Messer | knife knives | ware sharp tool
der Hammer Hämmer | hammer | tool
der Schlüssel Schlüssel | key | ware tool
die Tasche Taschen | bag | ware
der Ball Bälle | ball | ware
der Spiegel Spiegel | mirror | ware
der Koffer Koffer | suitcase | ware
der Strauß Sträuße | bouquet | gift
der Ring Ringe | ring | gift
das Geschenk Geschenke | present | gift
die Birne Birnen | bulb | lightbulb
die Batterie Batterien | battery batteries | lightbulb
der Reifen Reifen | tyre | lightbulb
der Hut Hüte | hat | clothes
der Mantel Mäntel | coat | clothes
das Kleid Kleider | dress dresses | clothes
das Hemd Hemden | shirt | clothes
die Jacke Jacken | jacket | clothes
der Schuh Schuhe | shoe | clothes
das Haus Häuser | house | building
das Schloss Schlösser | castle | building
die Kirche Kirchen | church churches | building
das Museum Museen | museum | building
der Turm Türme | tower | building
die Schule Schulen | school | building
die Bank Banken | bank | building
das Gericht Gerichte | court | building
das Hotel Hotels | hotel | building
der Bahnhof Bahnhöfe | station | building
der Park Parks | park | area
der Garten Gärten | garden | area
die Küche Küchen | kitchen | area
die Stadt Städte | city cities | area
das Dorf Dörfer | village | area
der Wald Wälder | forest | area
das Büro Büros | office | area
das Zimmer Zimmer | room | area
der Keller Keller | cellar | area
die Brücke Brücken | bridge | surface
das Dach Dächer | roof | surface painted
der See Seen | lake | shore
die See - | sea | shore
der Fluss Flüsse | river | shore
die Wand Wände | wall | painted
die Decke Decken | ceiling | painted
der Zaun Zäune | fence | painted
das Klavier Klaviere | piano | instrument
die Geige Geigen | violin | instrument
die Flöte Flöten | flute | instrument
die Gitarre Gitarren | guitar | instrument
"""
